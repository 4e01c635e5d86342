"""Runs a published Apollo client against one address and prints what it holds, a JSON line per change.

Arguments: the package, address of the config service, app id, cluster, namespace, cache directory, and the secret of an
access key if requests are to be signed. Each package is used as its own documentation has it.
"""

import json
import logging
import os
import sys
import threading


def tell(event, values):
    print(json.dumps({"event": event, "values": dict(values)}), flush=True)


def apollo_config_client(address, app, cluster, namespace, cache, secret):
    from apollo_config import create_config_manager

    manager = create_config_manager(
        app_id=app,
        config_url=address,
        cluster=cluster,
        namespaces=[namespace],
        access_key_secret=secret,
        cache_dir=cache,
        auto_start=False,
    )
    manager.on_namespace_change(namespace)(lambda name, _: tell("held", manager.get_configs(name)))
    manager.start()
    tell("started", manager.get_configs(namespace))


def apollo_client_python(address, app, cluster, namespace, cache, secret):
    os.environ["HOME"] = cache  # where it keeps its cache
    from apollo import ApolloClient

    client = ApolloClient(
        config_url=address,
        app_id=app,
        cluster=cluster,
        namespaces=[namespace],
        secret=secret or "",
        enable_long_pool_updates=True,
        enable_dotenv=False,
    )
    client.add_value_change_listener(lambda _: tell("held", client.get_config(namespace) or {}))
    tell("started", client.get_config(namespace) or {})
    client.start()


def apollo_python(address, app, cluster, namespace, cache, secret):
    from apollo_python import ApolloClient

    os.chdir(cache)
    # It has no call for all values of a namespace, and tells of each that changed.
    values = {}

    def changed(action, _, key, value):
        if action == "delete":
            values.pop(key, None)
        else:
            values[key] = value
        tell("held", values)

    ready = threading.Event()

    def listener(*change):
        ready.wait()
        changed(*change)

    client = ApolloClient(
        app_id=app,
        config_url=address,
        cluster=cluster,
        secret=secret or "",
        log_level="CRITICAL",  # it logs to standard output
        notification_map={namespace: -1},
        change_listener=listener,
    )
    first = client.get_value("number", namespace=namespace)
    if first is not None:
        values["number"] = first
    tell("started", values)
    ready.set()


def papollo(address, app, cluster, namespace, cache, secret):
    from papollo import Apollo

    client = Apollo(address, app, cluster=cluster, secret=secret, cache_dir=cache, watch=True)
    client.add_listener(lambda _, old, new: tell("held", new))
    tell("started", client.namespace(namespace))


PACKAGES = {
    "apollo-config-client": apollo_config_client,
    "apollo-client-python": apollo_client_python,
    "apollo-python": apollo_python,
    "papollo": papollo,
}


def main():
    package, address, app, cluster, namespace, cache, *secret = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    PACKAGES[package](address, app, cluster, namespace, cache, secret[0] if secret else None)
    threading.Event().wait()


if __name__ == "__main__":
    main()
