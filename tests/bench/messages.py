"""Every message that a person can be shown, in one list: `python tests/bench/messages.py [WORD ...]`.

Strings that are raised, printed, noted or given as help, with "…" for what is filled in; with words, those that hold one
of them. What the model's tools answer is among them (ToolError): without a model a person reads it.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHOWN = {
    "print",
    "print_safe",
    "print_wrapped",
    "print_lines",
    "print_note",
    "note",
    "say",
    "show",
    "tell",
    "complain",
    "warn",
    "good",
    "bad",
}
NOT_SHOWN = {"KeyError", "TypeError", "LookupError", "StopIteration", "AttributeError", "IndexError", "AssertionError"}


def get_name(call):
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def get_text(node):
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(get_text(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return get_text(node.left) + get_text(node.right)
    return " / ".join(filter(None, map(get_text, (node.body, node.orelse)))) if isinstance(node, ast.IfExp) else ""


def list_messages(tree):
    """The line and the text of each message of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and get_name(node.exc) not in NOT_SHOWN:
            shown = node.exc.args
        elif isinstance(node, ast.Call) and get_name(node) in SHOWN:
            shown = node.args
        elif isinstance(node, ast.Call):
            shown = [one.value for one in node.keywords if one.arg == "help"]
        elif isinstance(node, ast.Yield) and node.value:
            shown = [node.value]
        else:
            continue
        yield from ((one.lineno, text) for one in shown if " " in (text := " ".join(get_text(one).split())))


def main():
    wanted = [word.lower() for word in sys.argv[1:]]
    count = 0
    for path in sorted((ROOT / "picoclaw").rglob("*.py")):
        for line, text in sorted(set(list_messages(ast.parse(path.read_text())))):
            if not wanted or any(word in text.lower() for word in wanted):
                count += 1
                print(f"{path.relative_to(ROOT / 'picoclaw')}:{line}: {text}")
    print(f"{count} messages", file=sys.stderr)


if __name__ == "__main__":
    main()
