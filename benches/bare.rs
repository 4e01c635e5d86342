//! A bare axum handler that answers every request with the bytes of a file: what serving a released file costs
//! at least. `scripts/bench-pulls` runs it beside a node.
//!
//! Prints the address that it listens on, and serves until its standard input ends.

#![expect(clippy::print_stdout, reason = "the address is for who started it")]

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use bytes::Bytes;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[tokio::main]
async fn main() {
    let file = std::env::args().nth(1).expect("a file");
    let content = Bytes::from(std::fs::read(file).expect("readable"));
    let answer = move || std::future::ready(([(CONTENT_TYPE, "application/json;charset=UTF-8")], content.clone()));
    let router = Router::new().route("/configs/{app}/{cluster}/{*file}", get(answer));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    println!("{}", listener.local_addr().expect("bound"));
    let ended = async {
        let mut rest = Vec::new();
        let _ = tokio::io::stdin().read_to_end(&mut rest).await;
    };
    axum::serve(listener, router).with_graceful_shutdown(ended).await.expect("it serves");
}
