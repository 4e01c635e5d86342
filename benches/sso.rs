//! Cost of a bearer token of an identity provider before the command that it authorizes: verified at first sight, by
//! each algorithm, and looked up when it is remembered. One thread; the provider is a socket on this machine that
//! serves its documents once.
//!
//! `scripts/bench sso` runs it. `THUBAN_BENCH_TOKENS` (2,000) different tokens with claims of 1.2 kB; the smallest of
//! five rounds of each is reported.

#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thuban::metrics::Metrics;
use thuban::model::sso::Provider;
use thuban::model::stamp::Stamp;
use thuban::model::time::Timestamp;
use thuban::oidc::Algorithm;
use thuban::oidc::testing::{TestKey, key_set};
use thuban::sso::{IdentityProviders, SsoClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// The program's.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const ROUNDS: usize = 5;
const NOW_S: u64 = 1_800_000_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let count: usize = match std::env::var("THUBAN_BENCH_TOKENS") {
        Ok(text) => text.parse()?,
        Err(_) => 2000,
    };
    for algorithm in Algorithm::ALL {
        let [first, again] = measured(algorithm, count).await?;
        let name = algorithm.name();
        println!("{name}: {first:.1} us at first sight, {again:.2} us remembered");
    }
    Ok(())
}

/// Returns microseconds a token, at first sight and remembered.
async fn measured(algorithm: Algorithm, count: usize) -> Result<[f64; 2], Box<dyn Error>> {
    let key = TestKey::new(algorithm, "k1");
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let issuer = format!("http://{}", listener.local_addr()?);
    let discovery = json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")});
    let server = tokio::spawn(serve(listener, discovery.to_string(), key_set([&key]).to_string()));
    let provider = Provider {
        issuer: issuer.clone(),
        client_id: "thuban".to_owned(),
        bearer: true,
        audiences: vec!["thuban".to_owned()],
        ..Provider::new("p", "acme", Stamp::default())
    };
    let tokens: Vec<String> = (0..count).map(|at| key.token(&claims(&issuer, at))).collect();
    let mut best = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        let clock = SsoClock::new(|| Timestamp(NOW_S * 1000));
        let providers = IdentityProviders::new(clock, None, Arc::new(Metrics::new()?));
        let warming = key.token(&claims(&issuer, count));
        providers.bearer(&provider, &warming).await.map_err(|refusal| refusal.info())?;
        for best in &mut best {
            let begun = Instant::now();
            for token in &tokens {
                providers.bearer(&provider, token).await.map_err(|refusal| refusal.info())?;
            }
            *best = (*best).min(begun.elapsed());
        }
    }
    server.abort();
    Ok(best.map(|time| time.as_secs_f64() * 1e6 / count as f64))
}

/// Claims as those of a CI system.
fn claims(issuer: &str, at: usize) -> Value {
    json!({
        "iss": issuer, "aud": "thuban", "sub": format!("repo:acme/shop:ref:refs/heads/main:{at}"), "iat": NOW_S,
        "exp": NOW_S + 300, "repository": "acme/shop", "ref": "refs/heads/main", "workflow": "w".repeat(900)
    })
}

async fn serve(listener: TcpListener, discovery: String, keys: String) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && stream.read_buf(&mut head).await.is_ok_and(|read| read > 0) {}
        let body = if head.starts_with(b"GET /keys ") { &keys } else { &discovery };
        let answer = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}
