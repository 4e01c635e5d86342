use super::*;

fn asked(consecutive_errors: Option<u32>, percent: Option<u32>, sleep_s: u32) -> Detection {
    let error_rate = percent.map(|percent| ErrorRate { percent, interval_s: 20, minimum_requests: 5 });
    Detection { consecutive_errors, error_rate, sleep_s, max_ejection_percent: Some(50) }
}

#[test]
fn what_is_not_asked_for_is_off() {
    let none = || OutlierDetection {
        interval: seconds(3),
        base_ejection_time: seconds(30),
        max_ejection_time: seconds(30),
        max_ejection_percent: Some(50),
        enforcing_consecutive_5xx: Some(0),
        enforcing_success_rate: Some(0),
        enforcing_consecutive_gateway_failure: Some(0),
        enforcing_failure_percentage: Some(0),
        successful_active_health_check_uneject_host: Some(false),
        ..Default::default()
    };
    let in_a_row = OutlierDetection { consecutive_5xx: Some(4), enforcing_consecutive_5xx: Some(100), ..none() };
    let by_rate = |percent| OutlierDetection {
        interval: seconds(20),
        failure_percentage_threshold: Some(percent),
        enforcing_failure_percentage: Some(100),
        failure_percentage_minimum_hosts: Some(1),
        failure_percentage_request_volume: Some(5),
        ..none()
    };
    let both = OutlierDetection { consecutive_5xx: Some(4), enforcing_consecutive_5xx: Some(100), ..by_rate(40) };
    let rows = [
        (asked(Some(4), None, 30), Some(in_a_row), None),
        (asked(None, Some(40), 30), Some(by_rate(40)), Some(by_rate(39))),
        (asked(None, Some(100), 30), Some(by_rate(100)), Some(by_rate(99))),
        (asked(None, Some(1), 30), Some(by_rate(1)), Some(by_rate(0))),
        (asked(Some(4), Some(40), 30), Some(both), Some(by_rate(39))),
        (asked(None, None, 30), None, None),
    ];
    for (asked, by_envoy, by_grpc) in rows {
        assert_eq!(detection(&asked, Dialect::Envoy), by_envoy, "Envoy: {asked:?}");
        assert_eq!(detection(&asked, Dialect::Grpc), by_grpc, "gRPC: {asked:?}");
    }
}

/// Ejection time and check interval in seconds.
#[test]
fn looks_are_often_enough_for_the_time_away() {
    for (sleep, expected) in [(1, 1), (9, 1), (30, 3), (100, 10), (4_000_000_000, 10)] {
        let message = detection(&asked(Some(1), None, sleep), Dialect::Envoy).expect("a detection");
        assert_eq!(message.interval, seconds(expected), "{sleep}");
        assert_eq!(message.base_ejection_time, message.max_ejection_time);
    }
}
