use prost::Message;

use super::*;

fn plan(check: Check) -> ProbePlan {
    ProbePlan { probe: Some(Probe { port: Some(81), interval_s: 5, timeout_s: 1, check }) }
}

/// Returns the only health check of a cluster, encoded and decoded.
fn sent(plan: &ProbePlan, is_http2: bool) -> core::HealthCheck {
    let mut cluster = Cluster::default();
    apply(plan, "pay.shop", is_http2, &mut cluster);
    assert!(cluster.ignore_health_on_host_removal);
    let decoded = Cluster::decode(cluster.encode_to_vec().as_slice()).expect("a cluster");
    decoded.health_checks.into_iter().next().expect("a probe")
}

fn digits(text: &str) -> Option<Payload> {
    Some(Payload { payload: Some(core::health_check::payload::Payload::Text(text.into())) })
}

#[test]
fn http_probes_are_requests() {
    let check = HttpCheck {
        method: "PUT".into(),
        host: None,
        path: "/healthy".into(),
        headers: vec![("x-share".into(), "100%".into())],
        body: "hi".into(),
    };
    let probe = sent(&plan(Check::Http(check.clone())), false);
    assert_eq!((probe.interval, probe.no_traffic_interval, probe.timeout), (seconds(5), seconds(5), seconds(1)));
    assert_eq!((probe.unhealthy_threshold, probe.healthy_threshold), (Some(3), Some(1)));
    let Some(HealthChecker::HttpHealthCheck(http)) = probe.health_checker else { panic!("an HTTP probe") };
    assert_eq!((http.host.as_str(), http.path.as_str(), http.send), ("pay.shop", "/healthy", digits("6869")));
    assert_eq!((http.method, http.codec_client_type), (core::RequestMethod::Put as i32, CodecClientType::Http1 as i32));
    assert_eq!(http.expected_statuses, [Int64Range { start: 200, end: 400 }]);
    let header = http.request_headers_to_add[0].header.clone().expect("a header");
    assert_eq!((header.key.as_str(), header.value.as_str()), ("x-share", "100%%"));
    let own = HttpCheck { host: Some("own".into()), body: String::new(), ..check };
    let probe = sent(&plan(Check::Http(own)), true);
    let Some(HealthChecker::HttpHealthCheck(http)) = probe.health_checker else { panic!("an HTTP probe") };
    assert_eq!((http.host.as_str(), http.send, http.codec_client_type), ("own", None, CodecClientType::Http2 as i32));
}

#[test]
fn tcp_probes_are_bytes() {
    let rows =
        [("", None, None, vec![]), ("\u{1}é", Some("ok"), digits("01c3a9"), vec![digits("6f6b").expect("bytes")])];
    for (send, receive, sent_bytes, received) in rows {
        let check = Check::Tcp { send: send.into(), receive: receive.map(str::to_owned) };
        let probe = sent(&plan(check), false);
        let Some(HealthChecker::TcpHealthCheck(tcp)) = probe.health_checker else { panic!("a TCP probe") };
        assert_eq!((tcp.send, tcp.receive), (sent_bytes, received), "{send}");
    }
}

#[test]
fn a_port_of_its_own_is_that_of_the_endpoints() {
    let probing = |port: Option<u16>| {
        let check = Check::Tcp { send: String::new(), receive: None };
        let plan = ProbePlan { probe: Some(Probe { port, interval_s: 5, timeout_s: 1, check }) };
        endpoint_config(&plan).map(|config| config.port_value)
    };
    assert_eq!(probing(Some(81)), Some(81));
    assert_eq!(probing(None), None);
    assert_eq!(endpoint_config(&ProbePlan::default()), None);
}
