"""Lines and files of each package, class names that are used twice, module-level functions named by a participle.

python tests/bench/size.py [FOLDER OF THE CHECKOUT]
"""

import ast
import re
import sys
from collections import Counter
from pathlib import Path

PARTICIPLE = re.compile(
    r"(?!need|feed|seed|speed|embed|proceed|exceed|shred|heed)[a-z]{2,}ed|told|shown|heard|led|kept|made|found|said|given"
    r"|taken|written|known|left|held|lost|sent|built|gone|begun|drawn|chosen|broken|spoken|worn|meant|felt|thought"
    r"|brought|bought|caught|taught|sought|bound|wound|stood|understood|seen|done|hidden|spent|torn|grown|driven|stuck"
)


def is_participle(name):
    return bool(PARTICIPLE.fullmatch(name.strip("_").split("_")[0]))


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])
    lines, files, classes, participles, functions = Counter(), Counter(), Counter(), [], 0
    for path in sorted((root / "picoclaw").rglob("*.py")):
        parts = path.relative_to(root / "picoclaw").parts
        room = parts[0] if len(parts) > 1 else "(top level)"
        text = path.read_text()
        lines[room] += text.count("\n")
        files[room] += 1
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                classes[node.name] += 1
            elif isinstance(node, ast.FunctionDef):
                functions += 1
                if is_participle(node.name):
                    participles.append(f"{path.stem}.{node.name}")
    for room, count in lines.most_common():
        print(f"{count:7,} lines {files[room]:4} files  {room}")
    print(f"{sum(lines.values()):7,} lines {sum(files.values()):4} files  picoclaw/")
    tests = list((root / "tests").rglob("*.py"))
    print(f"{sum(path.read_text().count(chr(10)) for path in tests):7,} lines {len(tests):4} files  tests/")
    twice = sorted(name for name, count in classes.items() if count > 1)
    print(f"{sum(classes.values())} classes at module level; names used twice or more: {len(twice)} {' '.join(twice)}")
    print(f"{functions} functions at module level; named by a participle: {len(participles)} {' '.join(participles)}")


if __name__ == "__main__":
    main()
