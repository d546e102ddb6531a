"""The tasks there are."""

from deepedu.bench.longcontext import (
    common_words,
    key_value,
    longbench_v2,
    lost_in_the_middle,
    needles,
    passkey,
    variables,
)
from deepedu.bench.longcontext.case import Group

GROUPS: tuple[Group, ...] = (
    needles.GROUP,
    variables.GROUP,
    common_words.GROUP,
    key_value.GROUP,
    passkey.GROUP,
    lost_in_the_middle.KEY_VALUE_GROUP,
    lost_in_the_middle.OPEN_GROUP,
    longbench_v2.GROUP,
)
TASKS: tuple[str, ...] = tuple(task for group in GROUPS for task in group.tasks)
