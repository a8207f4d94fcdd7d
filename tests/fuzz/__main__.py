"""Run all searches for failures, or those named: make fuzz ARGS='contract --examples 50'.

A search is a module of this folder with a function `run(options)` that yields lines of text, and raises in the end
when it found a failure.
"""

import argparse
import sys
import time

from tests.fuzz import contract, decisions, duress, hostile, laws, mutation

SEARCHES = {
    "contract": contract,
    "decisions": decisions,
    "duress": duress,
    "hostile": hostile,
    "laws": laws,
    "mutation": mutation,
}

parser = argparse.ArgumentParser(prog="make fuzz ARGS=…", description=__doc__)
parser.add_argument("names", nargs="*", choices=[*SEARCHES, []], help="which searches (default: all)")
parser.add_argument("--seed", type=int, default=1, help="the same seed asks the same (default: 1)")
parser.add_argument("--examples", type=int, default=200, help="contract: examples of each operation (default: 200)")
parser.add_argument("--operation", action="append", help="contract: only this operation id; may repeat")
parser.add_argument("--requests", type=int, default=20_000, help="hostile: how many requests (default: 20,000)")
parser.add_argument("--mutants", type=int, default=60, help="mutation: how many mutants (default: 60)")
parser.add_argument("--plans", type=int, default=2_000, help="decisions, laws: how many random plans (default: 2,000)")
parser.add_argument("--seconds", type=float, default=60, help="duress: how long each kind lasts (default: 60)")
parser.add_argument("--kind", action="append", help="duress: only this kind of client; may repeat")
options = parser.parse_args()

failed = False
for name in options.names or SEARCHES:
    print(f"== {name}: {(SEARCHES[name].__doc__ or '').partition(chr(10))[0]}", flush=True)
    began = time.monotonic()
    try:
        for line in SEARCHES[name].run(options):
            print(line, flush=True)
    except AssertionError as error:
        failed = True
        print(f"   FAILED: {error}", flush=True)
    print(f"   ({time.monotonic() - began:.0f} s)", flush=True)
sys.exit(failed)
