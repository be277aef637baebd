//! The functions' processes, as this machine shows them under `/proc`: both engines run them as ordinary ones.

use std::{fs, net::SocketAddr, path::PathBuf, process::Command};

/// Kills the process that a connection of the gate's comes from.
pub(crate) fn kill_peer(peer: SocketAddr, gate_port: u16) {
    let pid = pid_of(peer.port(), gate_port).unwrap_or_else(|| panic!("nobody holds the connection from {peer}"));
    kill(pid);
}

/// The process that holds the connection from `port` to `to`, both on the loopback interface.
fn pid_of(port: u16, to: u16) -> Option<u32> {
    let inode = inode_of(port, to)?;
    let socket = PathBuf::from(format!("socket:[{inode}]"));
    pids().find(|pid| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.into_iter().any(|file| fs::read_link(file.path()).is_ok_and(|link| link == socket))
    })
}

/// The inode of the socket from `port` to `to`, by the kernel's table: columns 2, 3 and 10 are the local address, the
/// remote one, and the inode.
fn inode_of(port: u16, to: u16) -> Option<u64> {
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    table.lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let port_in = |column: usize| u16::from_str_radix(columns.get(column)?.rsplit_once(':')?.1, 16).ok();
        let is_it = port_in(1)? == port && port_in(2)? == to;
        is_it.then(|| columns.get(9)?.parse().ok()).flatten()
    })
}

fn pids() -> impl Iterator<Item = u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The environment of a running process of the function.
pub(crate) fn environment_of(function: &str) -> Option<Vec<(String, String)>> {
    pids().find_map(|pid| {
        let raw = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let pairs = raw.split(|byte| *byte == 0).filter_map(|pair| {
            let (name, value) = std::str::from_utf8(pair).ok()?.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        });
        let pairs: Vec<_> = pairs.collect();
        let has = |name: &str, value: &str| pairs.iter().any(|(n, v)| n == name && v == value);
        has("AWS_LAMBDA_FUNCTION_NAME", function).then_some(pairs)
    })
}

/// SIGKILL: nothing of the process gets to say goodbye.
fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}
