//! Listeners over TLS and behind proxies, how they end, connections of HTTP/2, and connections that are parked.

mod ending;
mod http2;
mod parking;
mod proxy;
mod tls;
