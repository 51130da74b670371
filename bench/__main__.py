"""`python -m bench [part …]`: parts are training, history, browser, sizes; all of them by default."""

from __future__ import annotations

import sys

from bench import browser, history, sizes, training

PARTS = {
    "training": training.measure,
    "history": history.measure,
    "browser": browser.measure,
    "sizes": sizes.measure,
}


def main(names: list[str]) -> int:
    wrong = [name for name in names if name not in PARTS]
    if wrong:
        print(f"no part {', '.join(wrong)}; the parts are {', '.join(PARTS)}")
        return 2
    print(f"{'what':<66} {'measured':>10} {'goal':>11}")
    missed = 0
    for name in names or list(PARTS):
        for row in PARTS[name]():
            print(row, flush=True)
            missed += not row.holds
    print(f"{missed} missed" if missed else "all hold")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
