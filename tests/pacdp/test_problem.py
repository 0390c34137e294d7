from dataclasses import replace

from pacdp.problem import Problem


def test_a_subset_keeps_the_labels_that_the_whole_would_have():
    every = Problem(dataset="digits2", random_labels=1.0, label_seed=3)
    some = replace(every, train_size=200, split_seed=5)
    (whole, _), (part, _) = every.data(), some.data()
    indices = some.split(whole.n).indices
    assert part.n == 200
    assert (part.labels == whole.labels[indices]).all()
    assert (part.inputs == whole.inputs[indices]).all()


def test_train_and_test_labels_are_randomised_independently():
    train, test = Problem(dataset="digits2", random_labels=1.0).data()
    assert abs((train.labels[: test.n] == test.labels).mean() - 0.5) < 0.15
