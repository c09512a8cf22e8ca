"""The owner's folders and files: made when first needed, seeded from templates, never overwritten."""

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from picoclaw.errors import ConfigError, explain_syntax
from picoclaw.files import create_file, explain_os_error, make_folder
from picoclaw.resources import find_shipped
from picoclaw.workspace.pages import (
    ONBOARDING_PAGE,
    PAGES,
    TEMPLATE_PAGES,
    CreatedFiles,
    Pages,
    Prompts,
    WorkspaceTemplates,
    find_onboarding,
    read_bytes,
)

MACHINE_OUTPUTS = Path("/etc/picoclaw/outputs.toml")
"""Wins entirely over the one in the home folder when it is there."""

_OWN_FILES = ("config.toml", "secrets.toml", "policy.toml", "outputs.toml", "seeds.json", "state.db")
_MAX_TABLE_BYTES = 1_000_000


def prepare_home(
    home: Path, *, restore: bool = False, meeting: bool = False, templates: Path | None = None
) -> CreatedFiles:
    """Make the home (mode 0700), the workspace, and the pages in it that were never seeded; returns what was made.

    `restore` makes the pages that the owner has deleted as well, and the commented config.toml and policy.toml; a home
    without them works, and starts faster. `meeting` brings the first meeting back. Raises ConfigError when there can be
    no home or no workspace; where only pages cannot be made, the templates serve and the problem is returned.
    """
    if is_namesakes_home(home):
        raise ConfigError(
            f"{home} is the home of another program of this name, sipeed/picoclaw: `picoclaw migrate --from picoclaw` moves"
            " it aside and takes over from it; or set PICOCLAW_HOME to another folder"
        )
    made = []
    for folder in (home, home / "workspace"):
        try:
            if not folder.is_dir():
                make_folder(folder)
                made.append(folder)
        except OSError as error:
            raise ConfigError(
                f"{folder} cannot be made: {explain_os_error(error)}; or set PICOCLAW_HOME to another folder"
            ) from None
    seeds = _open_templates(home, templates)
    try:
        names = list(TEMPLATE_PAGES) if restore else seeds.list_new()
    except ConfigError as error:
        return CreatedFiles(made, str(error))
    if meeting:
        find_onboarding(home)
    if meeting or (names and seeds.is_home_fresh()):
        names.insert(0, ONBOARDING_PAGE)  # as long as it alone is there, the home is still a fresh one
    created = seeds.create(names) if names else CreatedFiles([], "")
    made += created.made
    for path in (home / "config.toml", home / "policy.toml") if restore else ():
        try:
            if create_file(path, (find_shipped("templates") / path.name).read_bytes()):
                made.append(path)
        except OSError as error:
            return CreatedFiles(made, created.problem or f"{path} cannot be made: {explain_os_error(error)}")
    return CreatedFiles(made, created.problem)


def prepare_folder(folder: Path, names: Collection[str] = TEMPLATE_PAGES) -> CreatedFiles:
    """Make the workspace of an agent, or of a member of the household, with those of these pages that were never made."""
    try:
        make_folder(folder / "workspace" / "memory")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be made: {explain_os_error(error)}") from None
    seeds = _open_templates(folder, None)
    new = [name for name in seeds.list_new() if name in names]
    return seeds.create(new) if new else CreatedFiles([], "")


def is_namesakes_home(home: Path) -> bool:
    """Whether a folder is sipeed/picoclaw's, which has the same name as ours, and nothing of ours is in it yet."""
    return os.path.lexists(home / "config.json") and not is_own_home(home)


def is_own_home(home: Path) -> bool:
    """Whether anything in a folder shows that it is a home of this picoclaw."""
    return any(os.path.lexists(home / name) for name in _OWN_FILES)


def _open_templates(home: Path, templates: Path | None = None) -> WorkspaceTemplates:
    return WorkspaceTemplates(home, templates or find_shipped("templates") / "workspace")


def examine_workspace(home: Path) -> Iterator[tuple[str, str]]:
    """List problems of the workspace and their fixes; changes nothing."""
    seeds, pages, prompts = _open_templates(home), Pages(home), Prompts(home / "workspace")
    pages.pages((*PAGES, "HEARTBEAT.md", ONBOARDING_PAGE))
    yield from ((problem, "until then no model is shown it") for problem in pages.problems)
    try:
        if missing := seeds.list_missing():
            yield f"not created yet, so the built-in text is used for: {', '.join(missing)}", "picoclaw init"
        if changed := seeds.list_changed():
            yield (
                f"picoclaw's text has changed for {', '.join(changed)}",
                "picoclaw init --diff, or picoclaw init --keep",
            )
        unknown = prompts.unknown()
        for path in prompts.overridden():
            if path in unknown:
                yield f"{path} is not used: no template has that name", "rename or remove it"
            else:
                prompts.get(path.stem)
        yield from ((problem, "") for problem in prompts.problems)
    except ConfigError as error:
        yield str(error), ""


def diff_templates(home: Path, templates: Path | None = None) -> bytes:
    """Show what is new in the templates of the owner's pages, for `patch -p0`; raises ConfigError."""
    seeds = _open_templates(home, templates)
    return b"".join(seeds.diff(name) for name in seeds.list_changed())


def keep_pages(home: Path) -> list[str]:
    """Keep the owner's pages, and offer the present changes of the templates no more; returns their names. Raises ConfigError."""
    seeds = _open_templates(home)
    changed = seeds.list_changed()
    if problem := seeds.accept(changed).problem:
        raise ConfigError(problem)
    return changed


def list_intent_files(home: Path, language: str = "en") -> list[Path]:
    """List what the matcher knows in a language: the shipped files, then the owner's `intents/`. Raises ConfigError.

    The owner's `de.toml` and `mine.de.toml` are German; a name that ends in no language is English.
    """
    shipped = find_shipped("templates") / "intents"
    known = list_languages()
    endings = ((path, path.stem.rpartition(".")[2]) for path in _list_toml_files(home / "intents"))
    own = [path for path, ending in endings if (ending if ending in known else "en") == language]
    return [shipped / "en.toml", *([] if language == "en" else [shipped / f"{language}.toml"]), *own]


def list_languages() -> list[str]:
    return [path.stem for path in _list_toml_files(find_shipped("templates") / "intents")]


def read_intent_tables(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Read the tables in files for the matcher. Raises ConfigError."""
    import tomllib

    tables = []
    for path in files:
        try:
            tables.append(tomllib.loads((read_bytes(path, _MAX_TABLE_BYTES) or b"").decode()))
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path} cannot be read: {explain_syntax(error)}") from None
    return tables


def _list_toml_files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".toml")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ConfigError(f"{folder} cannot be read: {explain_os_error(error)}") from None


def find_outputs_file(home: Path) -> Path:
    """Return the file that declares the outputs: the machine's, which root alone can write, or the home's."""
    return MACHINE_OUTPUTS if MACHINE_OUTPUTS.exists() else home / "outputs.toml"
