package conformance

// The programs of the toolchains. Each uses what programs of its language use:
// threads, processes, files, sockets, signals.

const pythonProgram = `import concurrent.futures, json, multiprocessing, os, pathlib, signal, socket, sqlite3, ssl, subprocess, tempfile, threading, time

def primes(r):
    return sum(all(n % d for d in range(2, int(n ** 0.5) + 1)) for n in range(max(r[0], 2), r[1]))

def main():
    with multiprocessing.Pool(2) as pool:
        total = sum(pool.map(primes, [(0, 5000), (5000, 10000)]))
    with concurrent.futures.ThreadPoolExecutor(4) as ex:
        assert sum(ex.map(primes, [(0, 50), (50, 100)])) == 25
    db = sqlite3.connect("p.db")
    db.execute("create table t (n integer)")
    db.execute("insert into t values (?)", (total,))
    db.commit()
    (total,), = db.execute("select n from t").fetchall()
    server = socket.create_server(("127.0.0.1", 0))
    def answer():
        c, _ = server.accept()
        with c: c.sendall(json.dumps({"primes": total}).encode())
    t = threading.Thread(target=answer); t.start()
    with socket.create_connection(server.getsockname()) as c:
        got = json.loads(c.makefile().read())
    t.join()
    signal.signal(signal.SIGALRM, lambda *a: None)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01); signal.pause(); signal.setitimer(signal.ITIMER_REAL, 0)
    with tempfile.TemporaryDirectory() as d:
        p = pathlib.Path(d, "a"); p.write_text("x"); p.rename(p.with_name("b")); os.link(p.with_name("b"), p); os.utime(p)
    ssl.create_default_context()
    print(subprocess.run(["echo", str(got["primes"])], capture_output=True, text=True, check=True).stdout.strip())

if __name__ == "__main__":
    main()`

const nodeProgram = `const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const http = require('http'), fs = require('fs'), { execFileSync } = require('child_process'), zlib = require('zlib'), crypto = require('crypto');
const primes = (a, b) => { let c = 0; for (let n = Math.max(a, 2); n < b; n++) { let p = true; for (let d = 2; d * d <= n; d++) if (n % d === 0) { p = false; break; } if (p) c++; } return c; };
if (!isMainThread) { parentPort.postMessage(primes(...workerData)); return; }
const half = (r) => new Promise((ok, no) => { const w = new Worker(__filename, { workerData: r }); w.on('message', ok); w.on('error', no); });
(async () => {
  const [a, b] = await Promise.all([half([0, 5000]), half([5000, 10000])]);
  await fs.promises.writeFile('n.gz', zlib.gzipSync(String(a + b)));
  const watcher = fs.watch('.', () => {}); watcher.close();
  crypto.createHash('sha256').update(crypto.randomBytes(64)).digest();
  const server = http.createServer((q, r) => fs.createReadStream('n.gz').pipe(zlib.createGunzip()).pipe(r)).listen(0, '127.0.0.1', async () => {
    const text = await (await fetch('http://127.0.0.1:' + server.address().port)).text();
    server.close();
    console.log(execFileSync('echo', [text]).toString().trim());
    process.exit(0);
  });
})();`

const goProgram = `package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
)

func prime(n int) bool {
	for d := 2; d*d <= n; d++ {
		if n%d == 0 {
			return false
		}
	}
	return n > 1
}

func main() {
	var mu sync.Mutex
	var wg sync.WaitGroup
	total := 0
	for w := 0; w < 4; w++ {
		wg.Add(1)
		go func(w int) {
			defer wg.Done()
			n := 0
			for i := w; i < 10000; i += 4 {
				if prime(i) {
					n++
				}
			}
			mu.Lock()
			total += n
			mu.Unlock()
		}(w)
	}
	wg.Wait()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		c, _ := l.Accept()
		fmt.Fprint(c, total)
		c.Close()
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		panic(err)
	}
	b, _ := io.ReadAll(c)
	cmd := exec.Command("echo", string(b))
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		panic(err)
	}
}`

const rustProgram = `use std::{io::{Read, Write}, net::{TcpListener, TcpStream}, process::Command, sync::mpsc, thread};

fn prime(n: u32) -> bool { n > 1 && (2..).take_while(|d| d * d <= n).all(|d| n % d != 0) }

fn main() {
    let (tx, rx) = mpsc::channel();
    for w in 0..4u32 {
        let tx = tx.clone();
        thread::spawn(move || tx.send((0..10000).filter(|n| n % 4 == w && prime(*n)).count()).unwrap());
    }
    drop(tx);
    let total: usize = rx.iter().sum();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let t = thread::spawn(move || write!(listener.accept().unwrap().0, "{}", total).unwrap());
    let mut s = String::new();
    TcpStream::connect(addr).unwrap().read_to_string(&mut s).unwrap();
    t.join().unwrap();
    std::fs::write("n", &s).unwrap();
    print!("{}", String::from_utf8(Command::new("cat").arg("n").output().unwrap().stdout).unwrap());
}`

const javaProgram = `import java.net.*;
import java.nio.file.*;
import java.util.concurrent.*;
import java.util.stream.*;

public class Primes {
    static boolean prime(int n) { return n > 1 && IntStream.rangeClosed(2, (int) Math.sqrt(n)).noneMatch(d -> n % d == 0); }
    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(2);
        Future<Long> a = pool.submit(() -> IntStream.range(0, 5000).filter(Primes::prime).count());
        Future<Long> b = pool.submit(() -> IntStream.range(5000, 10000).parallel().filter(Primes::prime).count());
        Path p = Files.writeString(Path.of("n"), Long.toString(a.get() + b.get()));
        pool.shutdown();
        try (ServerSocket s = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            Thread t = new Thread(() -> { try (Socket c = s.accept()) { Files.copy(p, c.getOutputStream()); } catch (Exception e) { e.printStackTrace(); } });
            t.start();
            try (Socket c = new Socket(s.getInetAddress(), s.getLocalPort())) {
                String got = new String(c.getInputStream().readAllBytes());
                new ProcessBuilder("echo", got).inheritIO().start().waitFor();
            }
            t.join();
        }
    }
}`

const cProgram = `#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int prime(int n) { for (int d = 2; d * d <= n; d++) if (n % d == 0) return 0; return n > 1; }
static int *total;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static void *work(void *arg) {
	int n = 0;
	for (int i = *(int *)arg; i < 10000; i += 2) n += prime(i);
	pthread_mutex_lock(&mu); *total += n; pthread_mutex_unlock(&mu);
	return NULL;
}
int main(void) {
	pthread_t t[2]; int at[2] = {0, 1}, status;
	total = mmap(NULL, sizeof *total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, work, &at[i]);
	for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
	if (fork() == 0) { char b[32]; int n = snprintf(b, sizeof b, "%d\n", *total); return write(pair[1], b, n) != n; }
	struct pollfd p = {pair[0], POLLIN, 0};
	if (poll(&p, 1, 10000) != 1) return 2;
	char b[32] = {0};
	if (read(pair[0], b, sizeof b - 1) <= 0 || wait(&status) < 0 || status) return 3;
	fputs(b, stdout);
	return 0;
}`

const cppProgram = `#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <string>

static bool prime(int n) { for (int d = 2; d * d <= n; d++) if (n % d == 0) return false; return n > 1; }
static int count(int a, int b) { int n = 0; for (int i = a; i < b; i++) n += prime(i); return n; }
int main() {
	auto a = std::async(std::launch::async, count, 0, 5000), b = std::async(std::launch::async, count, 5000, 10000);
	std::filesystem::create_directories("d/e");
	std::ofstream("d/e/n") << a.get() + b.get();
	std::filesystem::rename("d/e/n", "d/n");
	std::string s; std::ifstream("d/n") >> s;
	try { std::stoi("none"); } catch (const std::exception &) { std::cout << s << "\n"; }
	return 0;
}`

const page = `<!DOCTYPE html><title>primes</title><body><script>
const code = 'onmessage = e => { let c = 0; for (let n = 2; n < e.data; n++) { let p = true; for (let d = 2; d * d <= n; d++) if (n % d === 0) { p = false; break; } if (p) c++; } postMessage(c); }';
const canvas = document.createElement('canvas'); canvas.getContext('2d').fillText('primes', 5, 5);
const count = new Function('post', code.replace('onmessage =', 'const f =').replace('postMessage', 'post') + '; f({data: 10000})');
count(n => document.body.innerText = 'primes ' + n);
</script>`
