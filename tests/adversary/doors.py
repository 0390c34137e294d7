"""The public doors, their worlds, and how much too small their limits are made to see whether that is noticed."""

from tests.adversary import control, learners, networks, predictions
from tests.adversary.harness import LEVEL, Door

DOORS = (
    Door("certify_predictions: classes", predictions.errors, 0.12),
    Door("certify_predictions: losses", predictions.losses, 0.16),
    Door("certify_predictions: groups, weights, two models", predictions.parts, 0.14),
    Door("certify_predictions: people", predictions.people, 0.06),
    Door("certify", networks.honest, 0.06),
    Door("certify: networks that cheat", networks.cheating, 0.05, cheats=True),
    Door("self_certify", learners.self_certified, 0.07, fault=0.4),
    Door("CertifiedClassifier, CertifiedRegressor", learners.estimators, 0.08, fault=0.5),
    Door("compress", learners.compressed, 0.03, fault=0.4),
    Door("certify, a Gaussian", learners.gaussian, 0.03, fault=0.35),
    Door("risk control", control.thresholds, 0.10, fault=0.5),
    Door("Monitor", control.watched, 0.05),
    Door("exchangeable", control.exchangeable, 0.08, fault=0.2),
)


def worlds(door, of):
    """The numbers of a door's own among so many worlds of all doors."""
    return range(max(1, round(door.share * of)))


def complaints(door, found):
    """What is wrong with a door, in sentences with worlds to play again."""
    level, refused = LEVEL / len(DOORS), found.refused.total()
    wrong = {
        f"misses too often: {found.missed}: {found.misses[:3]}": found.p_value() < level,
        f"refuses honest worlds: {found.affronts[:3]}": bool(found.affronts),
        f"refuses {refused} of {found.played.total()} worlds": not door.cheats and 2 * refused > found.played.total(),
        f"would not be noticed at {door.fault} of its limits": not door.cheats and found.p_value(found.faulty) >= level,
    }
    return [f"{door.name} {what}" for what, so in wrong.items() if so]
