"""The functions that run inside the server; `stoker.store.redis.library` puts them together."""
