from tradewind.client.request_ids import RequestIds
from tradewind.request_ids import group_of


class Watch:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_ids_are_never_the_same_and_a_group_is_small() -> None:
    ids = RequestIds(Watch())

    minted = [ids.mint() for _ in range(1_000)]

    assert len(set(minted)) == 1_000
    groups = [group_of(one) for one in minted]
    assert {groups.count(group) for group in set(groups)} == {128, 1_000 % 128}


def test_submits_that_do_not_come_together_have_groups_of_their_own() -> None:
    watch = Watch()
    ids = RequestIds(watch)
    first = ids.mint()
    watch.now_s += 0.004
    second = ids.mint()
    watch.now_s += 0.002
    third = ids.mint()

    assert group_of(first) == group_of(second)
    assert group_of(third) != group_of(first)


def test_those_that_are_minted_instead_of_others_share_another_group_at_once() -> None:
    ids = RequestIds(Watch())
    refused = [ids.mint() for _ in range(3)]

    instead = [ids.mint(one) for one in refused]

    assert len(set(map(group_of, refused))) == len(set(map(group_of, instead))) == 1
    assert group_of(instead[0]) != group_of(refused[0])
    assert group_of(ids.mint(instead[0])) not in map(group_of, refused + instead)


def test_ids_of_another_form_name_no_group() -> None:
    group = "0123456789abcdef" * 2

    assert group_of(f"{group}.7") == group
    assert not any(
        map(group_of, ["", group, f"{group}.", f"{group}.12345", f"{group.upper()}.1", "a.1"])
    )
