"""How picoclaw is, in words for a person. Imports little: `picoclaw status` is to be instant."""

from collections.abc import Iterator, Mapping
from typing import Any

from picoclaw.times import format_duration

StatusMapping = Mapping[str, Any]


def name_channel(name: str) -> str:
    return "terminals" if name == "socket" else name


def format_status(status: StatusMapping, now: float) -> Iterator[str]:
    """Word it for a person, a line each."""
    if status["running"] and "since" not in status:
        yield f"picoclaw {status['version']} does not answer on {status['board']} (process {status['pid']})"
    elif status["running"]:
        age = format_duration(max(0, now - status["since"]))
        yield f"picoclaw {status['version']} runs on {status['board']}, for {age} (process {status['pid']})"
        used = f"{status['memory_mb']:.0f} of at most {status['memory_limit_mb']} MB"
        turn = f"answering {status['turn']}" if status.get("turn") else "idle"
        waiting = f", {status['queue']} waiting" if status.get("queue") else ""
        yield f"agent: {turn}{waiting}; {used} of memory"
        for name, one in status["channels"].items():
            heard = f", last heard from {_format_ago(one['last_contact'], now)}" if one["last_contact"] else ""
            how = "up" if one["up"] else f"DOWN since {_format_ago(one['since'], now)}: {one['error']}"
            yield f"{name_channel(name)}: {how}{heard}"
        yield f"model: {_format_model(status['model'], now)}"
        yield from _format_model_chain(status["model"], now)
        if shared := status.get("store"):
            when = f"synchronised {_format_ago(shared['synced'], now)}" if shared["synced"] else "not synchronised yet"
            yield f"store: {shared['address']}, {when}"
    else:
        yield f"picoclaw {status['version']} is not running; `picoclaw run` starts it. Board: {status['board']}"
    yield from _format_offline_status(status, now)
    for line in status.get("log", [])[-3:]:
        yield f"log: {_format_ago(line['at'], now)}: {line['text']}"
    yield from (f"NOT OK: {problem}" for problem in status["problems"])


def _format_offline_status(status: StatusMapping, now: float) -> Iterator[str]:
    """The lines that need no daemon."""
    yield from status["output_lines"]
    if "jobs" in status:
        yield f"jobs: {status['jobs'] or 'none'}"
        yield from (f"  {job['text']}" for job in status["next_jobs"])
        if status["outbox"] or status["inbox"]:
            yield f"waiting: {status['outbox']} to deliver, {status['inbox']} to answer"
        if beat := status["heartbeat"]:
            yield f"heartbeat: {_format_ago(beat['at'], now)}, {beat['outcome']}; {beat['tokens_today']:,} tokens today"
        if (costs := status.get("costs", {})).get("tokens"):
            money = f", {costs['money']:.2f} in money" if costs.get("money") else ""
            reached = f"; {costs['reached']} % of a cap is reached (/usage)" if costs.get("reached") else ""
            yield f"costs: {costs['tokens']:,} tokens today{money}{reached}"
    yield f"clock: {status['clock']['text']}"
    if "disk_free_mb" in status:
        free, total = (status[name] * 1.048576e-3 for name in ("disk_free_mb", "disk_total_mb"))
        yield f"disk: {free:.1f} of {total:.1f} GB free"


def _format_model(model: StatusMapping, now: float) -> str:
    if model["name"] == "intents":  # as providers.BUILT_IN_PROVIDER, which would be an import
        return "none; the built-in matcher answers"
    if model.get("rests"):
        return f"{model['name']}, resting: {model['error']}"
    error = f", not answering ({_format_ago(model['at'], now)}: {model['error']})" if model.get("error") else ""
    return f"{model['name']}{error}"


def _format_model_chain(model: StatusMapping, now: float) -> Iterator[str]:
    """A line for each model, where there are several."""
    chain = model.get("chain", [])
    for one in chain if len(chain) > 1 else ():
        how = f"answered {_format_ago(one['at'], now)}" if one["at"] else "not asked yet"
        how = f"no answer {_format_ago(one['at'], now)}: {one['error']}" if one["error"] else how
        only = "" if one["chosen"] else " (only if chosen with /model)"
        yield f"  {one['name'] or 'first'}: {one['model']} at {one['url']}{only}, {how}"


def _format_ago(at: float, now: float) -> str:
    return f"{format_duration(max(0, now - at))} ago"
