"""Says what this machine and installation have, what is missing, and for each problem what to do.

It looks at Python, torch, cores and their limits, memory, disk and shared memory, compiler, extras, environments that can be
made, and rendering. The exit code is 1 if something will get in your way; a missing extra does not count.

Example:
  rein doctor
  rein doctor --quick
"""

import argparse

from rein.cli.command import FAILURE, OK, Outcome, Session

_MARKS = {"ok": "ok  ", "missing": "--  ", "problem": "!!  "}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("--quick", action="store_true", help="make no environments and render nothing")


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Examines."""
    from rein.doctor import Finding, examine

    def line(finding: Finding) -> str:
        fix = f": {finding.fix}" if finding.fix else ""
        return f"{_MARKS[finding.status]}{finding.subject:<18}{finding.text}{fix}"

    findings = []
    for finding in examine(arguments.quick):
        findings.append(finding)
        if not session.as_json:
            print(line(finding), flush=True)
    problems = [finding for finding in findings if finding.status == "problem"]
    count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}, marked !!" if problems else "no problems"
    data = {"findings": [finding._asdict() for finding in findings], "problems": len(problems)}
    return Outcome(
        data, f"\n{count}; -- is not installed, which is fine unless you need it", FAILURE if problems else OK
    )
