"""What the final table says of the servers."""

from hybridjob.follow import _servers


def test_the_servers_that_were_waited_for_and_asked_most_are_named():
    summary = {"waits": {"ps0": 1.0, "ps1": 3.0}, "ids": {"ps0": 750, "ps1": 250}}
    assert _servers(summary) == {
        "waited most for": "ps1, 75% of 4.0 s in lookup",
        "asked most": "ps0, 1.50 times the mean of all servers' ids",
    }


def test_one_server_is_not_compared():
    assert _servers({"waits": {"ps0": 1.0}, "ids": {"ps0": 5}}) == {}
    assert _servers({}) == {}
