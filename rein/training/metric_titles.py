"""Names of metrics in words, for charts: "ActorCriticAlgorithm/loss/pg_loss" is "Policy gradient loss"."""

import re
from collections import Counter
from collections.abc import Iterable

_KNOWN = {
    "Metrics/AverageReturn": "Training return",
    "Metrics/AverageEpisodeLength": "Length of training episodes",
    "Metrics/StepsPerSecond": "Environment steps per second",
    "Metrics/EnvironmentSteps": "Environment steps",
    "Metrics/NumberOfEpisodes": "Training episodes",
    "Evaluation/AverageReturn": "Evaluation return",
    "Evaluation/AverageEpisodeLength": "Length of evaluation episodes",
}
_PREFIXES = {
    "Metrics/AverageReturn/": "Training return, reward",
    "Metrics/AverageEnvInfo/": "In training:",
    "Metrics/": "Training:",
    "Evaluation/": "Evaluation:",
    "eval/": "Evaluation:",
    "train_epoch/": "Training:",
}
_WORDS = {
    "pg": "policy gradient",
    "td": "TD",
    "kl": "KL",
    "q": "Q",
    "lr": "learning rate",
    "mse": "squared error",
    "acc": "accuracy",
    "avg": "average",
    "neg": "negative",
    "neglogprob": "negative log probability",
    "num": "number of",
    "std": "deviation",
    "vae": "VAE",
    "vq": "VQ",
    "rnd": "RND",
    "icm": "ICM",
    "rl": "RL",
    "irm": "intrinsic reward",
    "ppo": "PPO",
    "ppg": "PPG",
    "sac": "SAC",
    "dqn": "DQN",
    "mi": "mutual information",
    "mcts": "search",
}
_MEANINGLESS_ALONE = {"mean", "std", "min", "max", "sum", "scale", "variance", "global", "value", "loss", ""}
"""Last parts that say something only with the part before them."""


def metric_titles(names: Iterable[str]) -> dict[str, str]:
    """A title for each of some metrics; where two would have the same, each says whose it is.

    Args:
        names: full names of the metrics.
    """
    titles = {name: metric_title(name) for name in names}
    times = Counter(titles.values())
    return {name: title if times[title] == 1 else f"{title} ({_owner(name)})" for name, title in titles.items()}


def metric_title(name: str) -> str:
    """The name of a metric in words.

    Args:
        name: its full name, scopes joined by "/".
    """
    if name in _KNOWN:
        return _KNOWN[name]
    for prefix, words in _PREFIXES.items():
        if name.startswith(prefix) and len(name) > len(prefix):
            return f"{words} {_in_words(name[len(prefix) :].split('/'))}"
    parts = [part for part in re.split(r"[/.]", name) if part]
    if not parts:
        return name
    last = parts[-1:]
    if len(parts) > 1 and (parts[-1] in _MEANINGLESS_ALONE or parts[-1].isdigit()):
        last = [parts[-1]] if parts[-1] == "loss" else parts[-2:]
    text = _in_words(last)
    return text[:1].upper() + text[1:]


def _owner(name: str) -> str:
    return _in_words(name.split("/")[:-1][-2:] or [name])


def _in_words(parts: list[str]) -> str:
    return ", ".join(" ".join(_word(word) for word in _split(part)) for part in parts)


def _split(part: str) -> list[str]:
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", part.removesuffix("Algorithm"))
    return [word for word in re.split(r"[\s_]+", apart) if word]


def _word(word: str) -> str:
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    return word if word.isupper() else word.lower()
