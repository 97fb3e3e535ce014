use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Forwards one connection until it is frozen: then both sides keep theirs, and hear nothing.
pub(crate) struct Proxy {
    address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(PartialEq)]
enum State {
    Forwarding,
    Frozen,
    Over,
}

impl Proxy {
    pub(crate) fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new((Mutex::new(State::Forwarding), Condvar::new()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            let here = listener.accept().unwrap().0;
            let there = TcpStream::connect(target).unwrap();
            let pairs = [(here.try_clone(), there.try_clone()), (Ok(there), Ok(here))];
            for (from, to) in pairs {
                let state = Arc::clone(&shared);
                thread::spawn(move || forward(from.unwrap(), to.unwrap(), &state));
            }
        });
        Self { address, state }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn freeze(&self) {
        *self.state.0.lock().unwrap() = State::Frozen;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        *self.state.0.lock().unwrap() = State::Over;
        self.state.1.notify_all();
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, state: &(Mutex<State>, Condvar)) {
    let mut bytes = [0; 4096];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        let guard = state.0.lock().unwrap();
        drop(state.1.wait_while(guard, |state| *state == State::Frozen).unwrap());
        if to.write_all(&bytes[..n]).is_err() {
            return;
        }
    }
}
