"""Runs the published Apollo client against one address and prints what it holds, a JSON line per change.

Arguments: address of the config service, app id, cluster, namespace, cache directory, and the secret of an access
key if requests are to be signed.
"""

import json
import logging
import sys
import threading

from apollo_config import create_config_manager


def tell(event, values):
    print(json.dumps({"event": event, "values": values}), flush=True)


def main():
    address, app, cluster, namespace, cache, *secret = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    manager = create_config_manager(
        app_id=app,
        config_url=address,
        cluster=cluster,
        namespaces=[namespace],
        access_key_secret=secret[0] if secret else None,
        cache_dir=cache,
        auto_start=False,
    )
    manager.on_namespace_change(namespace)(lambda name, _: tell("held", manager.get_configs(name)))
    manager.start()
    tell("started", manager.get_configs(namespace))
    threading.Event().wait()


if __name__ == "__main__":
    main()
