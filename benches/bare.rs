//! A minimal axum handler that answers every request with the bytes of a file and given headers: the lower bound for
//! serving a released file. `scripts/bench-pulls` compares it with a node.
//!
//! Arguments: the file, then each header as `name: value`. Prints the address that it listens on, and serves until its
//! standard input ends.

#![expect(clippy::print_stdout, reason = "the address is for who started it")]

use axum::Router;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::routing::get;
use bytes::Bytes;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().expect("a file");
    let content = Bytes::from(std::fs::read(file).expect("readable"));
    let headers: HeaderMap = arguments.map(|line| header(&line)).collect();
    let answer = move || std::future::ready((headers.clone(), content.clone()));
    let router = Router::new().route("/configs/{app}/{cluster}/{*file}", get(answer));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    println!("{}", listener.local_addr().expect("bound"));
    let ended = async {
        let mut rest = Vec::new();
        let _ = tokio::io::stdin().read_to_end(&mut rest).await;
    };
    axum::serve(listener, router).with_graceful_shutdown(ended).await.expect("it serves");
}

fn header(line: &str) -> (HeaderName, HeaderValue) {
    let (name, value) = line.split_once(": ").expect("name: value");
    (name.parse().expect("a name"), value.parse().expect("a value"))
}
