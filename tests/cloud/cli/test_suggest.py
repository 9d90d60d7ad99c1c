from cloud.cli.suggest import closest, question, version_question


def test_the_most_alike_comes_first() -> None:
    names = ["fashion-edge", "fashion-cloud", "digits"]
    assert closest("fashion-edg", names)[0] == "fashion-edge"
    assert question("fashon-edge", names).startswith(". Did you mean 'fashion-edge'")
    assert question("zebra", names) == ""


def test_a_name_of_ten_thousand_bytes_is_compared_cut_short() -> None:
    assert question("x" * 10_000, ["x" * 64, "y"]) == ""


def test_versions_are_the_closest_or_the_newest() -> None:
    assert version_question("1.0.1", ["1.0.0", "2.7.9"]) == ". Did you mean 1.0.0?"
    assert version_question("", ["1.0.0", "2.7.9"]) == ". There is 1.0.0, 2.7.9"
    assert version_question("1.0.0", []) == ". It has no versions yet"
