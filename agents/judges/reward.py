"""Engine `reward`: models of what people like, by `options.kind`."""

from agents.judges import ImageJudge
from planner.catalog.judges import Judge


def load(judge: Judge) -> ImageJudge:
    """Load a reward model. PickScore is a CLIP whose logits are its scores (Kirstain et al. 2023)."""
    if judge.options["kind"] == "pickscore":
        from agents.judges.clip_score import ClipJudge

        return ClipJudge(judge, scaled=True)
    from agents.judges.image_reward import ImageReward

    return ImageReward(judge)
