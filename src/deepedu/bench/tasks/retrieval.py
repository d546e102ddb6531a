"""How often search finds the passage a question was asked on, among thousands of others."""

from deepedu.bench.run import BenchContext, BenchResult


def run(context: BenchContext) -> BenchResult:
    raise NotImplementedError
