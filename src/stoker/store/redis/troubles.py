"""What the server's errors mean to those who store jobs."""

from __future__ import annotations

from redis import exceptions as trouble

from stoker.errors import StoreFull, StoreReadOnly, StoreUnavailable, StoreUnfit
from stoker.store.redis.options import Options


def unavailable(options: Options, error: trouble.RedisError) -> StoreUnavailable:
    """The server could not be talked to for as long as patience lasted."""
    return StoreUnavailable(
        f"Redis at {options} did not answer for {options.patience:g} s ({error}); whether the last "
        "call took effect is not known. Check that the server runs and can be reached from here"
    )


def raise_if_hopeless(options: Options, error: trouble.RedisError) -> None:
    """Raise at once what no waiting will mend."""
    said = str(error)
    if isinstance(error, trouble.OutOfMemoryError):
        raise StoreFull(
            f"Redis at {options} has no memory left for new jobs; raise its maxmemory, or let "
            "workers finish some"
        ) from error
    if isinstance(error, trouble.AuthenticationError):
        raise StoreUnfit(
            f"Redis at {options} refused the login ({said}); check user and password in the URL, "
            "as in redis://user:password@host"
        ) from error
    if isinstance(error, trouble.NoPermissionError) or any(word in said for word in _FORBIDDEN):
        raise StoreUnfit(
            f"the user may not do all that Stoker needs on Redis at {options} ({said}); "
            "docs/storage-redis.md lists the permissions"
        ) from error
    if isinstance(error, trouble.ResponseError):
        _raise_if_refused(options, error, said)


# How servers say that a function did what its caller may not do.
_FORBIDDEN = ("ACL failure in script", "user executing the script can't")
_BY_LOCALE = "text is not compared byte by byte"
"""How our functions say that they cannot work here: see lua/base.lua."""
_PASSING = (
    "BUSY ",
    "NOREPLICAS",
    "UNBLOCKED",
    "Can not run script with write flag",
    "WAIT cannot be used with replica",
    "WAITAOF cannot be used with replica",
)
"""How answers begin of servers that were demoted under way, or can do it later."""
_PASSING_KINDS = (
    trouble.ReadOnlyError,
    trouble.TryAgainError,
    trouble.ClusterDownError,
    trouble.AskError,
)


def _raise_if_refused(options: Options, error: trouble.ResponseError, said: str) -> None:
    if said.startswith("MISCONF"):
        raise StoreReadOnly(f"Redis at {options} takes no writes: {said}") from error
    if "unknown command" in said:
        raise StoreUnfit(
            f"the server at {options} is too old ({said}); Stoker needs Redis 7.0 or Valkey 7.2"
        ) from error
    if _BY_LOCALE in said:
        raise StoreUnfit(
            f"Redis at {options} was started under a locale by whose rules it compares text, so "
            "that jobs would be out of order; tell it CONFIG SET locale-collate C (Redis 7.2 or "
            "newer, Valkey) and write that into its configuration, or start it with LC_ALL=C"
        ) from error
    if not isinstance(error, _PASSING_KINDS) and not said.startswith(_PASSING):
        raise StoreUnavailable(f"Redis at {options} refused a call: {said}") from error
