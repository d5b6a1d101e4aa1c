//! Runs `verify` and `inspect` on URLs of real servers. The report equals the report on the folder that was copied there.

use std::{
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use shardpack_testing::{
    Bench,
    places::{FolderServer, run, said, with},
    server::{Fault, Nginx, Proxy},
    stores::{Kind, ObjectServer},
};

/// Three datasets: plain, compressed with zstd, and with splits.
fn packed(bench: &Bench) -> Vec<(&'static str, PathBuf)> {
    let pack = |name: &'static str, options: &[&str]| {
        let dst = bench.at(name);
        let (from, to) = (bench.src(), dst.clone());
        let args = ["pack", from.to_str().unwrap(), to.to_str().unwrap(), "--quiet", "--seed", "3"];
        shardpack_testing::run(&[&args[..], options].concat()).code(0);
        (name, dst)
    };
    vec![
        pack("plain", &["--shards", "5"]),
        pack("zstd", &["--shards", "3", "--compress", "zstd"]),
        pack("splits", &["--shards", "2", "--split-fraction", "val=0.2"]),
    ]
}

#[test]
fn what_is_said_of_a_url_is_what_is_said_of_the_folder() {
    let bench = Bench::with_source(120, 9000);
    let datasets = packed(&bench);
    let key =
        shardpack_testing::run(&["inspect", datasets[0].1.to_str().unwrap(), "--samples", "--limit", "7", "--json"])
            .json();
    let key = key["samples"][6]["key"].as_str().unwrap().to_owned();
    let out = |name: &str| bench.at(name).display().to_string();
    let commands: [&[&str]; 6] = [
        &["verify", "--json"],
        &["verify", "--quick", "--json"],
        &["verify", "--decode", "--json"],
        &["inspect", "--json"],
        &["inspect", "--samples", "--limit", "0", "--json"],
        &["inspect", "--extract", &key, "--json", "--force", "-o"],
    ];
    let told = |target: &[String], command: &[&str], file: &str| {
        let more = command.contains(&"-o").then_some(file);
        let words = with(command[0], target, &[&command[1..], more.as_slice()].concat());
        let mut json = run(&words, &[]).code(0).json();
        if let Some(file) = json.get_mut("file") {
            *file = Value::Null;
        }
        json
    };
    let mut of_folders = Vec::new();
    for (name, folder) in &datasets {
        for command in commands.iter().filter(|command| !command.contains(&"--extract") || *name == "plain") {
            let told = told(&[folder.display().to_string()], command, &out("one"));
            assert!(told["network"].is_null(), "{told}");
            of_folders.push((*name, command, said(told)));
        }
    }
    let table = |target: &[String], file: &str| {
        run(&with("inspect", target, &["--force", "--table", file]), &[]).code(0).stdout
    };
    table(&[out("plain")], &out("one.csv"));
    let files = [("one", "other"), ("one.csv", "other.csv")];
    FolderServer::each(|place| {
        for (name, folder) in &datasets {
            place.copy(folder, name);
        }
        let other = |file: &str| out(&format!("{}-{file}", place.name()));
        for (name, command, of_folder) in &of_folders {
            let of_url = told(&place.url(name, place.port()), command, &other("other"));
            assert!(of_url["network"]["requests"].as_u64().unwrap() > 1, "{of_url}");
            assert_eq!(of_url["network"]["requests_again"], 0);
            assert_eq!(*of_folder, said(of_url), "{} {name} {command:?}", place.name());
        }
        let url = place.url("plain", place.port());
        run(&with("verify", &url, &["--against", bench.src().to_str().unwrap()]), &[]).code(0);
        assert!(table(&url, &other("other.csv")).contains("network "));
        for (of_folder, of_url) in files {
            assert_eq!(fs::read(out(of_folder)).unwrap(), fs::read(other(of_url)).unwrap(), "{}", place.name());
        }
        run(&with("inspect", &url, &[]), &[]).code(0).says("plain").says("network ");
        run(&with("verify", &url, &["--quick"]), &[]).code(0).says("sizes and structure only").says("network ");
    });
}

#[test]
fn verify_and_inspect_say_the_same_where_requests_fail() {
    let bench = Bench::with_source(90, 9000);
    let datasets = packed(&bench);
    let faults = [
        Fault::Status(503, false),
        Fault::Status(500, false),
        Fault::Drop,
        Fault::Cut(700),
        Fault::Flip(300),
        Fault::Delay(Duration::from_millis(30)),
    ];
    let commands = ["verify", "inspect"];
    let told = |command: &str, target: &[String]| said(run(&with(command, target, &["--json"]), &[]).code(0).json());
    let of_folders =
        [0, 1].map(|number| commands.map(|command| told(command, &[datasets[number].1.display().to_string()])));
    FolderServer::each(|place| {
        let proxy = Proxy::start(place.port());
        for (name, folder) in &datasets[..2] {
            place.copy(folder, name);
        }
        for (number, fault) in place.turns(faults) {
            let url = place.url(datasets[number % 2].0, proxy.port());
            for (command, of_folder) in commands.into_iter().zip(&of_folders[number % 2]) {
                // Flipped data is fetched again soon. The second request must not be the next to be flipped.
                let is_flip = matches!(fault, Fault::Flip(_));
                proxy.fail(if is_flip { if command == "verify" { 23 } else { 9 } } else { 5 }, fault);
                assert_eq!(told(command, &url), *of_folder, "{} {fault:?} {command}", place.name());
                assert!(proxy.faults() > 0);
            }
        }
    });
}

#[test]
fn damage_at_a_url_is_named_as_in_a_folder() {
    let bench = Bench::with_source(90, 9000);
    let datasets = packed(&bench);
    let ways: [&[&str]; 2] = [&["--json"], &["--quick", "--json"]];
    let told = |target: &[String], options: &[&str]| said(run(&with("verify", target, options), &[]).code(1).json());
    let mut damaged = Vec::new();
    for (name, folder) in &datasets[..2] {
        let at = bench.at(&format!("damaged-{name}"));
        assert!(Command::new("cp").arg("-r").arg(folder).arg(&at).status().unwrap().success());
        let paths = |folder: &Path| {
            let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            paths.collect::<std::collections::BTreeSet<_>>()
        };
        let is_shard = |path: &PathBuf| [".tar", ".tar.zst"].iter().any(|end| path.to_string_lossy().ends_with(end));
        let shards: Vec<_> = paths(&at).into_iter().filter(is_shard).collect();
        let index = paths(&at.join("index")).pop_last().unwrap();
        let change = |path: &Path, change: fn(&mut Vec<u8>)| {
            let mut bytes = fs::read(path).unwrap();
            change(&mut bytes);
            fs::write(path, bytes).unwrap();
        };
        change(&shards[0], |bytes| {
            let at = bytes.len() / 2;
            bytes[at] ^= 8;
        });
        change(&shards[1], |bytes| bytes.truncate(bytes.len() - 700));
        change(&index, |bytes| *bytes.last_mut().unwrap() ^= 1);
        let of_folder = ways.map(|options| told(&[at.display().to_string()], options));
        damaged.push((*name, at, of_folder));
    }
    FolderServer::each(|place| {
        for (name, at, of_folder) in &damaged {
            place.copy(at, name);
            for (options, of_folder) in ways.iter().zip(of_folder) {
                let of_url = told(&place.url(name, place.port()), options);
                assert_eq!(*of_folder, of_url, "{} {name} {options:?}", place.name());
            }
        }
    });
}

#[test]
fn credentials_come_from_where_the_programs_of_aws_have_them() {
    let Some(server) = ObjectServer::start(Kind::S3) else { return };
    let bench = Bench::with_source(12, 500);
    bench.pack(&[]).code(0);
    server.put_folder(&bench.dst(), "packed");
    let (url, endpoint) = (server.url("packed"), format!("http://127.0.0.1:{}", server.port()));
    let (config, keys) = (bench.at("config"), bench.at("credentials"));
    let process = bench.at("process");
    fs::write(&process, "#!/bin/sh\necho '{\"Version\": 1, \"AccessKeyId\": \"AKIATEST\", \"SecretAccessKey\": \"secretsecretsecret\"}'\n").unwrap();
    let text = format!(
        "[default]\nregion = us-east-1\n[profile by-process]\ncredential_process = sh {p}\nendpoint_url = {endpoint}\n\
         [profile by-sso]\nsso_session = x\n[profile broken]\ncredential_process = echo SECRETS\n",
        p = process.display()
    );
    fs::write(&config, text).unwrap();
    let text = "[default]\naws_access_key_id = AKIATEST\naws_secret_access_key = secretsecretsecret\n\
                [wrong]\naws_access_key_id = AKIATEST\naws_secret_access_key = other\n";
    fs::write(&keys, text).unwrap();
    let (config, keys) = (config.to_str().unwrap(), keys.to_str().unwrap());
    let at = ("AWS_ENDPOINT_URL", endpoint.as_str());
    let files = [("AWS_CONFIG_FILE", config), ("AWS_SHARED_CREDENTIALS_FILE", keys)];
    let in_environment = [("AWS_ACCESS_KEY_ID", "AKIATEST"), ("AWS_SECRET_ACCESS_KEY", "secretsecretsecret")];
    let verify = |environment: &[(&str, &str)], settings: &[&str]| {
        let settings: Vec<_> = settings.iter().flat_map(|setting| ["--store", setting]).collect();
        run(&[&["verify", &url][..], &settings].concat(), environment)
    };
    verify(&[&in_environment[..], &[at]].concat(), &[]).code(0);
    verify(
        &[&in_environment[..], &[("AWS_ENDPOINT_URL_S3", &endpoint), ("AWS_ENDPOINT_URL", "http://127.0.0.1:1")]]
            .concat(),
        &[],
    )
    .code(0);
    verify(&[&files[..], &[at]].concat(), &[]).code(0);
    verify(&[&files[..], &[("AWS_PROFILE", "by-process")]].concat(), &[]).code(0);
    verify(&files, &["profile=by-process"]).code(0);
    // A profile in `--store` takes precedence over the environment; a profile in the environment does not.
    verify(&[&files[..], &in_environment, &[at]].concat(), &["profile=wrong"]).code(2).says("SignatureDoesNotMatch");
    verify(&[&files[..], &in_environment, &[at, ("AWS_PROFILE", "wrong")]].concat(), &[]).code(0);
    let none = verify(&[at], &[]).code(2).says("no credentials").says("AWS_ACCESS_KEY_ID").says("the profile default");
    none.says("AWS_WEB_IDENTITY_TOKEN_FILE").says("public objects: --store anonymous=true");
    // A machine that could have credentials, but has none: nothing listens at this address.
    let nowhere = [at, ("AWS_EC2_METADATA_DISABLED", ""), ("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")];
    verify(&nowhere, &[]).code(2).says("no credentials").says("and the credentials of the machine at 169.254.169.254");
    let no_profile = verify(&[&files[..], &[at]].concat(), &["profile=none"]).code(2).says("the profile none");
    no_profile.says("AWS_PROFILE or --store profile=NAME names it");
    verify(&[&files[..], &[at]].concat(), &["profile=by-sso"]).code(2).says("sso_session").says("credential_process");
    let broken =
        verify(&[&files[..], &[at]].concat(), &["profile=broken"]).code(2).says("credential_process").says("line 1");
    assert!(!broken.stderr.contains("SECRETS"), "{broken:?}");
}

#[test]
fn whichever_answer_is_changed_on_its_way_verify_finds_what_lies_there() {
    let Some(nginx) = Nginx::start() else { return };
    let bench = Bench::with_source(40, 9000);
    let proxy = Proxy::start(nginx.port());
    for (name, folder) in packed(&bench) {
        assert!(Command::new("cp").arg("-rT").arg(folder).arg(nginx.data().join(name)).status().unwrap().success());
        let words = ["verify", &proxy.url(name), "--json"];
        let all = run(&words, &[]).code(0).json()["network"]["requests"].as_u64().unwrap();
        // Changes one answer at a time. The first answers list the files; other tests change them.
        for one in all / 2 + 1..=all {
            proxy.fail_one(one, Fault::Flip(300));
            run(&words, &[]).code(0);
        }
        assert!(proxy.faults() > 0, "{name}");
        proxy.fail(1, Fault::Delay(Duration::ZERO));
    }
}

#[test]
fn each_request_is_told() {
    let bench = Bench::with_source(40, 9000);
    let datasets = packed(&bench);
    FolderServer::each(|place| {
        for (name, folder) in &datasets {
            place.copy(folder, name);
        }
        place.copy(&bench.src(), "tree");
        let proxy = Proxy::start(place.port());
        let (dst, pattern) = (bench.at(&format!("counted-{}", place.name())), "plain/shard-{000000..000004}.tar");
        let into = ["--force", dst.to_str().unwrap()];
        let tree = place.url("tree", proxy.port()).remove(0);
        let (against, repair) = (["--against", &tree], ["--repair", &tree]);
        let of_others = ["--from=webdataset", into[0], into[1]];
        let mut cases: Vec<(&str, &str, &[&str])> = vec![
            ("verify", "plain", &[]),
            ("inspect", "splits", &[]),
            ("verify", pattern, &[]),
            ("inspect", pattern, &[]),
            ("convert", "plain", &into),
            ("convert", "splits", &into),
            ("convert", pattern, &into),
            ("convert", pattern, &of_others),
        ];
        if let FolderServer::Objects(_) = place {
            cases.extend([("pack", "tree", &into[..]), ("convert", "splits/*/*.tar", &into)]);
            cases.push(("crops", "plain", &["--every", "4"]));
            cases.extend([("verify", "plain", &["--quick"][..]), ("verify", "plain", &against)]);
            cases.push(("inspect", "plain", &["--samples"]));
            // Repair restores a byte of a shard from the tree, and its table from the shard.
            cases.push(("verify", "plain", &repair));
            let before = proxy.requests();
            let (src, to) = (bench.src(), place.url("packed", proxy.port()));
            let words = with("pack", &to, &["--json", "--force"]);
            let words = [&words[..1], &[src.to_str().unwrap()], &words[1..]].concat();
            let told = run(&words, &[]).code(0).json()["network"]["requests"].as_u64().unwrap();
            assert_eq!(told, proxy.requests() - before, "{} pack to a URL", place.name());
        }
        for (command, name, options) in cases {
            let before = proxy.requests();
            if let FolderServer::Objects(server) = place
                && options.contains(&"--repair")
            {
                for key in ["plain/shard-000000.tar", "plain/index/shard-000001.crops"] {
                    let mut bytes = server.get(key).unwrap();
                    bytes[900] ^= 1;
                    server.put(key, &bytes);
                }
            }
            let url = place.url(name, proxy.port());
            let mut words = with(command, &url, &["--json"]);
            words.extend(options);
            let told = run(&words, &[]).code(0).json();
            let told = told["network"]["requests"].as_u64().unwrap();
            assert_eq!(told, proxy.requests() - before, "{} {command} {name} {options:?}", place.name());
        }
    });
}

#[test]
fn what_cannot_be_done_at_a_url_is_said() {
    let Some(nginx) = Nginx::start() else { return };
    let bench = Bench::with_source(12, 500);
    bench.pack(&[]).code(0);
    let copied = Command::new("cp").arg("-r").arg(bench.dst()).arg(nginx.data().join("packed")).status().unwrap();
    assert!(copied.success());
    let (url, src, dst) = (nginx.url("packed"), bench.src(), bench.dst());
    let (src, dst) = (src.to_str().unwrap(), dst.to_str().unwrap());
    for (args, said) in [
        (vec!["verify", &url, "--repair", src], "a web server is only read from: nothing can be mended there"),
        (vec!["verify", &url, dst], "is a URL, but "),
        (vec!["verify", dst, "--store", "requests=3"], "this is a folder"),
        (vec!["inspect", dst, "--store", "requests=3"], "this is a folder"),
        (vec!["verify", &url, "--store", "requests"], "a setting without =, which is not shown"),
        (vec!["verify", &url, "--store", "region=x"], "has no setting region"),
        (vec!["verify", dst, "--repair", src, "--work", "x"], "--work is for a dataset at a URL"),
        (vec!["inspect", &url, "--table", "s3://bucket/x.csv"], "is a URL"),
        (vec!["adopt", &url], "is a URL"),
    ] {
        run(&args, &[]).code(2).says(said);
    }
    run(&["verify", &nginx.url("none")], &[]).code(2).says("no dataset").says("manifest.json");
    let repair = run(&["verify", &url, "--repair", src], &[]);
    repair.code(2).says("mend a copy in a folder, and copy the mended files");
    for (setting, said) in [
        ("requests", "write NAME=VALUE"),
        ("header=x", "write header=NAME: VALUE"),
        ("ca_file=/dev/null", "ca_file is a file of PEM certificates"),
    ] {
        run(&["verify", &url, "--store", setting], &[]).code(2).says(said);
    }
    let refused = run(&["verify", &nginx.url("403/packed")], &[]).code(2);
    refused.says("no credentials were sent; --store \"header=Authorization: …\" sends some");
    let refused = run(&["verify", &nginx.url("403/packed"), "--store", "header=Authorization: x"], &[]).code(2);
    refused.says("check the credentials and their permissions");
    let with_password = nginx.url("packed").replace("127", "user:hunter2@127");
    let with_password = run(&["verify", &with_password], &[]).code(2).says_not("hunter2");
    with_password.says("send it as a header: --store \"header=Authorization: …\"");
    let azure = run(&["verify", "az://container/x"], &[]).code(2);
    azure.says("set AZURE_STORAGE_ACCOUNT_NAME or AZURE_STORAGE_CONNECTION_STRING");
    // A header that the server requires, and that no other server gets.
    let log = nginx.url("packed");
    run(&["verify", &log, "--store", "header=X-Key: 1"], &[]).code(0);
    run(&["verify", &nginx.url("redirect/packed"), "--store", "header=X-Key: 1"], &[]).code(0);
}

/// Starts a server that answers each request with `answer`, which gets the request head. Returns the URL of the server.
fn serve(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            // The client may have gone away.
            let _ = stream.write_all(&answer(&String::from_utf8_lossy(&head)));
        }
    });
    address
}

fn answer(status: &str, more: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n{more}\r\n{body}", body.len()).into_bytes()
}

#[test]
fn settings_that_no_request_can_have_are_refused_by_their_names() {
    let keys = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "SECRETS"), ("AWS_REGION", "us-east-1")];
    let (s3, gs, az) = ("s3://bucket/x", "gs://bucket/x", "abfss://c@account.dfs.core.windows.net/x");
    let at = "endpoint=http://127.0.0.1:9";
    let of_s3 = |more: &[(&'static str, &'static str)]| [&keys[..], more].concat();
    let key = ("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0");
    let cases: Vec<(&str, &str, Vec<(&str, &str)>, &str)> = vec![
        (s3, "endpoint=127.0.0.1:9000", of_s3(&[]), "endpoint"),
        (s3, "endpoint=minio.example.org", of_s3(&[]), "endpoint"),
        (s3, "endpoint=", of_s3(&[]), "endpoint"),
        (s3, "endpoint=http://a b", of_s3(&[]), "endpoint"),
        (s3, "endpoint=http://user:SECRETS@host", of_s3(&[]), "endpoint"),
        (s3, "region=us east", of_s3(&[]), "region"),
        (s3, "region=", of_s3(&[]), "region"),
        (s3, "metadata_endpoint=x", of_s3(&[]), "metadata_endpoint"),
        (s3, "proxy=http://a\nb", of_s3(&[]), "proxy"),
        (s3, "retry_for=1", of_s3(&[("AWS_ENDPOINT_URL", "127.0.0.1:9")]), "AWS_ENDPOINT_URL"),
        (s3, at, of_s3(&[("AWS_SESSION_TOKEN", "SECRETS\n")]), "AWS_SESSION_TOKEN"),
        (s3, at, of_s3(&[("AWS_ACCESS_KEY_ID", "SECRETS\n")]), "AWS_ACCESS_KEY_ID"),
        (s3, at, of_s3(&[("AWS_SECRET_ACCESS_KEY", "SECRETSé")]), "AWS_SECRET_ACCESS_KEY"),
        (s3, at, of_s3(&[("AWS_REGION", "us-east-1\n")]), "AWS_REGION"),
        (s3, at, vec![("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "x")], "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
        (
            s3,
            at,
            vec![("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.org/")],
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        ),
        (gs, "endpoint=127.0.0.1:9", vec![], "endpoint"),
        (gs, "bearer_token=SECRETS\n", vec![], "bearer_token"),
        (gs, "base_url=a b", vec![], "base_url"),
        (gs, "retry_for=1", vec![("STORAGE_EMULATOR_HOST", "a b")], "STORAGE_EMULATOR_HOST"),
        (az, "endpoint=host", vec![key], "endpoint"),
        (az, "tenant_id=a b", vec![key], "tenant_id"),
        (az, "retry_for=1", vec![key, ("AZURE_TENANT_ID", "SECRETS\n")], "AZURE_TENANT_ID"),
        (az, "authority_host=x", vec![key], "authority_host"),
        ("az://c/x", "retry_for=1", vec![key, ("AZURE_STORAGE_ACCOUNT_NAME", "a b")], "AZURE_STORAGE_ACCOUNT_NAME"),
    ];
    for (url, setting, environment, name) in cases {
        let ran = run(&["verify", url, "--store", setting], &environment).code(2).says(name).clean_error();
        ran.says_not("SECRETS").says_not("panicked");
    }
    let of_profile = tempfile::NamedTempFile::new().unwrap();
    fs::write(of_profile.path(), "[default]\naws_access_key_id=A\naws_secret_access_key=SECRETS\u{1}\n").unwrap();
    let files = [("AWS_SHARED_CREDENTIALS_FILE", of_profile.path().to_str().unwrap())];
    let ran = run(&["verify", s3, "--store", at], &files).code(2).says("profile default: aws_secret_access_key has");
    ran.says_not("SECRETS").says("look at where it is set: a line feed at the end of a file is often taken along");
    let ran = run(&["verify", s3, "--store", "region=us east"], &keys).code(2);
    ran.says("look at where it is set; a blank or quotes are often taken along");
    let ran = run(&["verify", s3, "--store", "endpoint=host:9"], &keys).code(2);
    ran.says("such a URL begins with http:// or https://, as in http://127.0.0.1:9000");
    run(&["verify", s3, "--store", "proxy=http://[x"], &keys).code(2).says("write proxy=http://HOST:PORT");
    let ran = run(&["verify", s3], &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.org/")]).code(2);
    ran.says("a token would go there as it is: use https://");
}

#[test]
fn the_server_of_a_container_is_asked_with_the_token_that_there_is() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "of-file\n").unwrap();
    let file = file.path().to_str().unwrap();
    let (of_text, of_file) = ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    for (tokens, expected) in [
        (vec![], None),
        (vec![(of_text, "of-text")], Some("of-text")),
        (vec![(of_file, file)], Some("of-file")),
        (vec![(of_text, "of-text"), (of_file, file)], Some("of-file")),
    ] {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let credentials = serve(move |head| {
            seen.lock().unwrap().push(head.to_owned());
            answer("200 OK", "", r#"{"AccessKeyId":"THEKEY","SecretAccessKey":"S","Token":"T"}"#)
        });
        let uri = format!("{credentials}/creds");
        let store = serve(|head| match head.contains("Credential=THEKEY/") {
            true => answer("403 Forbidden", "", "<Error><Code>Known</Code></Error>"),
            false => answer("403 Forbidden", "", "<Error><Code>Unknown</Code></Error>"),
        });
        let settings = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri.as_str()), ("AWS_ENDPOINT_URL", &store)];
        run(&["verify", "s3://bucket/x", "--store", "retry_for=1"], &[&settings[..], &tokens].concat())
            .code(2)
            .says("Known");
        let asked = asked.lock().unwrap();
        let head = asked.first().unwrap().to_ascii_lowercase();
        assert!(head.starts_with("get /creds "), "{head}");
        let token = head.lines().find_map(|line| line.strip_prefix("authorization: "));
        assert_eq!(token, expected, "{head}");
    }
    // A credentials server that returns an invalid token, or no credentials.
    for (body, said) in [
        (r#"{"AccessKeyId":"A","SecretAccessKey":"S","Token":"SECRETS\n"}"#, "the session token has a line feed"),
        ("SECRETS", "sends no credentials: line 1, column 1"),
    ] {
        let uri = serve(move |_| answer("200 OK", "", body));
        let settings =
            [("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri.as_str()), ("AWS_ENDPOINT_URL", "http://127.0.0.1:9")];
        let ran = run(&["verify", "s3://bucket/x", "--store", "retry_for=1"], &settings).code(2).says(said);
        ran.says_not("SECRETS");
    }
}

#[test]
fn a_page_for_people_is_no_dataset() {
    let page = "<!DOCTYPE html><html><body>log in</body></html>";
    for head in ["Content-Type: text/html\r\n", ""] {
        let url = serve(move |_| answer("200 OK", head, page));
        for command in ["verify", "inspect"] {
            let ran = run(&[command, &format!("{url}/x"), "--store", "retry_for=1"], &[]).code(2);
            ran.says("no dataset").says("the server answers with a page of HTML");
        }
    }
    // A dataset with an HTML page in place of one shard.
    let bench = Bench::with_source(12, 500);
    bench.pack(&["--shards", "2"]).code(0);
    let folder = bench.dst();
    let url = serve(move |head| {
        let name = head.split(' ').nth(1).unwrap().strip_prefix("/x/").unwrap();
        match fs::read(folder.join(name)) {
            Ok(bytes) if name != "shard-000001.tar" => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", bytes.len());
                [head.into_bytes(), bytes].concat()
            }
            _ => answer("200 OK", "Content-Type: text/html\r\n", page),
        }
    });
    let ran = run(&["verify", &format!("{url}/x"), "--store", "retry_for=1"], &[]).code(1);
    ran.says("shard-000001.tar: missing, with its 6 samples").says_not("shard-000000.tar: ");
}

#[test]
fn a_redirect_to_where_a_machine_has_its_secrets_is_not_followed() {
    for to in ["http://169.254.169.254/latest/", "http://[fe80::1]/", "http://[::ffff:169.254.169.254]/"] {
        let url = serve(move |_| answer("302 Found", &format!("Location: {to}\r\n"), ""));
        let ran = run(&["verify", &format!("{url}/x"), "--store", "retry_for=1"], &[]).code(2);
        ran.says("a redirect to an address of the machine's own network (link-local)");
    }
}
