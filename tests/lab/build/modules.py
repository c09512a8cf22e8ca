"""modules.py KERNEL ROOT LIST: copy the modules of a list, and all that they need, from an unpacked kernel package.

LIST has one name per line; a name that ends in `/` is a whole folder, one that begins with `+` is loaded by the first
stage, in the order that ROOT/early-modules then has. Modules that are in ROOT already (`updates/`) may be named, too.
"""

import lzma
import shutil
import subprocess
import sys
from pathlib import Path


def copied(source: Path, target: Path) -> None:
    """Copy a module, without the compression that busybox cannot undo."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".xz":
        target.with_suffix("").write_bytes(lzma.decompress(source.read_bytes()))
    else:
        shutil.copyfile(source, target)


def needs(folder: Path, root: Path) -> dict[str, list[str]]:
    """Return what each module depends on, directly and indirectly, the deepest last, by path."""
    release = folder.name
    own = root / "lib/modules" / release / "updates"
    if own.is_dir():
        shutil.copytree(own, folder / "updates", dirs_exist_ok=True)
    subprocess.run(["depmod", "-b", folder.parents[2], release], check=True)
    lines = (folder / "modules.dep").read_text().splitlines()
    return {path: rest.split() for path, _, rest in (line.partition(":") for line in lines)}


def plain(path: str) -> str:
    """Return a module's name as modprobe knows it."""
    return path.rpartition("/")[2].partition(".ko")[0].replace("-", "_")


def main(kernel: Path, root: Path, names: list[str]) -> None:
    """Copy, then write the order in which the early ones are loaded."""
    if not (kernel / "lib").exists():  # newer packages have their modules where depmod does not look
        (kernel / "lib").symlink_to("usr/lib")
    folder = next((kernel / "lib/modules").iterdir())
    depends = needs(folder, root)
    by_name = {plain(path): path for path in depends}
    built_in = {plain(line) for line in (folder / "modules.builtin").read_text().splitlines()}
    wanted, early = [], []
    for name in names:
        bare = name.lstrip("+")
        if bare.endswith("/"):
            found = [p for p in depends if p.startswith((f"kernel/{bare}", bare))]
        elif plain(bare) in by_name:
            found = [by_name[plain(bare)]]
        elif plain(bare) in built_in:
            continue
        else:
            raise SystemExit(f"lab: the kernel {folder.name} has no module {bare}")
        chain = [p for path in found for p in (*reversed(depends[path]), path)]
        wanted += chain
        early += chain if name.startswith("+") else []
    target = root / "lib/modules" / folder.name
    for path in dict.fromkeys(wanted):
        copied(folder / path, target / path)
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        shutil.copyfile(folder / name, target / name)
    subprocess.run(["depmod", "-b", root, folder.name], check=True)
    order = [f"/lib/modules/{folder.name}/{path.removesuffix('.xz')}\n" for path in dict.fromkeys(early)]
    (root / "early-modules").write_text("".join(order))


if __name__ == "__main__":
    lines = Path(sys.argv[3]).read_text().splitlines()
    main(Path(sys.argv[1]), Path(sys.argv[2]), [line for line in lines if line and not line.startswith("#")])
