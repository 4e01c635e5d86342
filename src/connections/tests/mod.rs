//! Listeners with TLS and with proxies, their shutdown, HTTP/2 connections, and parked requests.

mod ending;
mod http2;
mod parking;
mod proxy;
mod tls;
