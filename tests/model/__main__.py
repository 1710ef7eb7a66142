"""`python -m tests.model [KEY ...] [--most N] [--first] [--seconds N]`: explores, and prints what breaks and how."""

import argparse
import sys
from dataclasses import replace

from tests.model.configurations import CONFIGURATIONS, called
from tests.model.explorer import explore
from tests.model.rules import passes_of
from tests.model.steps import World


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description="explores the create protocol")
    parser.add_argument("keys", nargs="*", help="configurations; none: all")
    parser.add_argument("--most", type=int, default=0, help="faults and acts in one trace, if not the configuration's")
    parser.add_argument("--first", action="store_true", help="stop at the first violation")
    parser.add_argument("--seconds", type=float, default=600.0)
    given = parser.parse_args()
    broken = 0
    for config in [called(key) for key in given.keys] or CONFIGURATIONS:
        passes = passes_of(config)
        world = World(replace(config, most=given.most or config.most), passes)
        outcome = explore(world, first=given.first, seconds=given.seconds)
        passes.close()
        sys.stdout.write(f"{config.key:16} {outcome}, {len(passes.nodes):,} nodes\n")
        for trace in outcome.violations.values():
            broken += 1
            sys.stdout.writelines(f"    {line}\n" for line in [*trace, ""])
        sys.stdout.flush()
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
