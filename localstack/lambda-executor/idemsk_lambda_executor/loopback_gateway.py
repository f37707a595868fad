"""LocalStack's gateway on the address that GATEWAY_LISTEN names.

LocalStack's own Twisted server takes only the port from GATEWAY_LISTEN and listens on all interfaces, where anyone on
the network could use it, and so run code as a function. GATEWAY_SERVER=loopback selects this one. Plain HTTP only.
"""

from localstack.runtime.server.core import RuntimeServer, RuntimeServerPlugin


class LoopbackServerPlugin(RuntimeServerPlugin):
    name = "loopback"

    def load(self, *args, **kwargs) -> RuntimeServer:
        # imported here, as LocalStack does: to import Twisted's reactor is to install it
        from localstack.runtime.server.twisted import TwistedRuntimeServer
        from rolo.serving.twisted import TwistedGateway
        from twisted.internet import reactor

        class LoopbackServer(TwistedRuntimeServer):
            def register(self, gateway, listen, ssl_creds=None):
                for address in listen:
                    # raises if the port is taken; LocalStack's own way would leave a server without a socket
                    reactor.listenTCP(address.port, TwistedGateway(gateway), interface=address.host)

        return LoopbackServer()
