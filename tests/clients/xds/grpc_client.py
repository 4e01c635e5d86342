"""A gRPC client without a proxy: grpc_client.py BOOTSTRAP

Its channels are those of grpcio with targets `xds:///NAMESPACE/SERVICE`; BOOTSTRAP is the file that says where the rules
are. It is driven by lines, see driven.py:

    {"op": "call", "target": T, "times": 20, "method": "/shop.Pay/Charge", "metadata": {"k": "v"}, "timeout_s": 5}
    {"op": "flow", "name": N, "target": T, …}, {"op": "seen", "name": N}, {"op": "stop", "name": N}
    {"op": "forget", "target": T}     closes the channel
    {"op": "state"}                   what the client itself tells of its resources: name, version, status, fault

With "ca", a file, a call goes by TLS; with "by_xds", true, by what xDS says of it, and otherwise by TLS.
"""

import os
import sys

from driven import Flows, Tally, serve


class Client:
    def __init__(self, grpc):
        self.grpc, self.channels = grpc, {}
        self.flows = Flows(self.once)

    def channel(self, target, authority, by_xds):
        if target not in self.channels and authority:
            with open(authority, "rb") as file:
                secure = self.grpc.ssl_channel_credentials(file.read())
            secure = self.grpc.xds_channel_credentials(secure) if by_xds else secure
            self.channels[target] = self.grpc.secure_channel(target, secure)
        elif target not in self.channels:
            self.channels[target] = self.grpc.insecure_channel(target)
        return self.channels[target]

    def once(self, tally, target, method="/shop.Pay/Charge", metadata=None, timeout_s=5, ca=None, by_xds=False):
        call = self.channel(target, ca, by_xds).unary_unary(method)
        try:
            answer = call(b"", metadata=list((metadata or {}).items()), timeout=timeout_s, wait_for_ready=False)
            tally.answered(answer.decode())
        except self.grpc.RpcError as error:
            tally.failed(error.code().name, error.details())

    def call(self, times=1, **what):
        tally = Tally()
        for _ in range(times):
            self.once(tally, **what)
        return tally.told()

    def forget(self, target):
        self.channels.pop(target).close()

    def state(self):
        import grpc_csds  # pylint: disable=import-outside-toplevel

        servicer = grpc_csds.ClientStatusDiscoveryServiceServicer()
        told = servicer.FetchClientStatus(None, None)
        rows = [
            {
                "type": one.type_url.rsplit(".", 1)[-1],
                "name": one.name,
                "version": one.version_info,
                "status": one.client_status,
                "fault": one.error_state.details,
            }
            for config in told.config
            for one in config.generic_xds_configs
        ]
        return {"resources": rows}


def main(bootstrap):
    os.environ["GRPC_XDS_BOOTSTRAP"] = bootstrap
    import grpc  # pylint: disable=import-outside-toplevel

    client = Client(grpc)
    serve(
        {
            "call": client.call,
            "flow": client.flows.start,
            "seen": client.flows.seen,
            "stop": client.flows.stop,
            "forget": client.forget,
            "state": client.state,
        }
    )


if __name__ == "__main__":
    main(sys.argv[1])
