"""`prudent claims`."""

from dataclasses import dataclass

from prudent.cli.options import Folders


@dataclass(frozen=True)
class ClaimsOptions:
    paths: Folders


def claims(options: ClaimsOptions) -> None:
    from prudent.report.claims import CLAIMS, claims_table, judge
    from prudent.report.evidence import collect

    missing = [str(path) for path in options.paths if not path.is_dir()]
    if missing or not options.paths:
        raise ValueError(f"prudent claims needs folders; {', '.join(missing) or 'none'} given")
    print(claims_table(judge(CLAIMS, collect(options.paths))))
