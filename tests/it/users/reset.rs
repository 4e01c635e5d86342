//! `thuban reset-password`: on one stopped node, for the whole cluster.

use std::path::Path;
use std::process::Output;

use serde_json::json;

use super::{LIMIT, USERS, as_user, log_in, make_user};
use crate::harness::{ADMIN_PASSWORD, Cluster, eventually, thuban};

const NEW_PASSWORD: &str = "a password after the loss";

async fn reset(data: &Path, name: &str, file: &Path) -> Output {
    let mut command = thuban();
    command.arg("reset-password").arg("--data-dir").arg(data).args(["--name", name]).arg("--password-file").arg(file);
    command.output().await.expect("the binary can be run")
}

async fn refused(data: &Path, name: &str, file: &Path, words: &str) {
    let output = reset(data, name, file).await;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains(words), "{told}");
}

/// Waits for the order to be gone. Whether the password is in force cannot be waited for: a few failed logins
/// make all later ones wait.
async fn expect_carried_out(order: &Path) {
    eventually(LIMIT, "the order is carried out", || async {
        if order.exists() { Err(order.display().to_string()) } else { Ok(()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_password_is_reset_on_one_stopped_node() {
    let mut cluster = Cluster::start(3).await;
    let (file, order) = (cluster.file("password"), cluster.data(2).join("order.json"));
    std::fs::write(&file, format!("{NEW_PASSWORD}\n")).expect("written");
    make_user(&cluster.api(1), "ann", json!([{"role": "reader", "namespace": "*"}])).await;
    cluster.api(1).put(USERS, &json!([{"name": "ann", "disabled": true}])).await.expect_code(200_000);
    cluster.expect_equal_state().await;
    refused(&cluster.data(2), "admin", &file, "in use").await;

    cluster.terminate(2).await;
    refused(&cluster.data(2), "nobody", &file, "the administrators are: admin").await;
    let output = reset(&cluster.data(2), "admin", &file).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("start the node again") && !told.contains(NEW_PASSWORD), "{told}");
    // Nothing has changed yet, and the other nodes know nothing.
    let old = cluster.api(1);
    old.get(USERS).await.expect_code(200_000);

    cluster.restart(2).await;
    expect_carried_out(&order).await;
    log_in(&cluster, 3, "admin", NEW_PASSWORD).await.expect_code(200_000);
    for id in cluster.ids() {
        cluster.api(id).get(USERS).await.expect_code(401_004);
        log_in(&cluster, id, "admin", ADMIN_PASSWORD).await.expect_code(401_001);
    }

    // It enables a disabled user, and changes no grants.
    cluster.terminate(2).await;
    assert!(reset(&cluster.data(2), "ann", &file).await.status.success());
    let left = std::fs::read_to_string(&order).expect("left behind");
    assert!(left.contains("argon2id") && !left.contains(NEW_PASSWORD), "{left}");
    cluster.restart(2).await;
    expect_carried_out(&order).await;
    let ann = log_in(&cluster, 1, "ann", NEW_PASSWORD).await.expect_code(200_000);
    let token = ann.body["loginResponse"]["token"].as_str().expect("a token");
    cluster.api(2).with_token(token).get(USERS).await.expect_code(401_001);

    // What was changed after the order was given stays, also where a crash has the order repeated.
    cluster.terminate(2).await;
    std::fs::write(&order, left).expect("written");
    let own = json!({"old_password": NEW_PASSWORD, "new_password": "chosen afterwards"});
    cluster.api(1).with_token(token).put("/auth/v1/user/password", &own).await.expect_code(200_000);
    cluster.restart(2).await;
    expect_carried_out(&order).await;
    as_user(&cluster, 2, "ann", "chosen afterwards").await;
    log_in(&cluster, 2, "ann", NEW_PASSWORD).await.expect_code(401_001);

    // The states are one.
    let admin = as_user(&cluster, 1, "admin", NEW_PASSWORD).await;
    admin.get(USERS).await.expect_code(200_000);
    let login = log_in(&cluster, 1, "admin", NEW_PASSWORD).await.expect_code(200_000);
    cluster.set_token(login.body["loginResponse"]["token"].as_str().expect("a token"));
    cluster.expect_equal_state().await;
}
