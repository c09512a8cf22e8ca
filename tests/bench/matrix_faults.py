"""Print what 200 faults of a homeserver, of the network and of the board itself lose and double on Matrix.

python tests/bench/matrix_faults.py [FAULTS] [SEED]
"""

import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]


def main() -> int:
    from test_matrix_faults import judge, play

    faults, seed = (int(word) for word in [*sys.argv[1:], *("200", "1")[len(sys.argv) - 1 :]][:2])
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        expected, told, counts = play(Path(folder) / "home", faults, seed)
    lost, doubled = judge(expected, told)
    print(f"faults {faults} (seed {seed}): {', '.join(f'{kind} {n}' for kind, n in counts.most_common())}")
    print(f"questions {len(expected)}, answers {len(told)}, {time.monotonic() - begun:.0f} s")
    print(f"lost {len(lost)}, doubled {len(doubled)}")
    for text in [*lost, *doubled][:20]:
        print(f"  {text}")
    return 1 if lost or doubled else 0


if __name__ == "__main__":
    sys.exit(main())
