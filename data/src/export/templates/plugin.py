"""ms-swift: the reward of `tracemill serve reward`, as `--external_plugins plugin.py --reward_funcs tracemill`.

tracemill_reward.py must lie beside this file (ms-swift puts the folder on Python's path). ms-swift counts
a reward of None as 0, so an output without a reward ends the run here.
"""

from swift.rewards import ORM, orms

from tracemill_reward import require_total, rewards


class TracemillReward(ORM):
    """Rewards completions by the row's `solution`."""

    def __call__(self, completions, solution, **kwargs):
        return [require_total(result) for result in rewards(solution, completions)]


orms["tracemill"] = TracemillReward
