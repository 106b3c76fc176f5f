//! Answers `/metrics` and `/health` over HTTP.
//!
//! Invariants: a thread of its own, so that neither a flood of requests nor a slow client delays
//! the peer. One request a connection. Every connection has an end, and there are at most so
//! many; further ones wait until one has ended, which is within seconds where clients say nothing.
//! Nothing is changed by any request.

use super::{health, page};
use brickmesh_actors::brick_owner::MeshStatus;
use brickmesh_topology::PeerId;
use futures::future::BoxFuture;
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    convert::Infallible,
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread,
    time::Duration,
};
use tokio::{
    net::TcpStream,
    sync::{Semaphore, oneshot},
    time::timeout,
};

/// Pause after a connection could not be taken: too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Media type of the text format.
const TEXT_FORMAT: &str = prometheus::TEXT_FORMAT;

/// Asks the peer how it is; `None` where it has ended.
pub type Ask = Arc<dyn Fn() -> BoxFuture<'static, Option<MeshStatus>> + Send + Sync>;

/// What clients may use up.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Connections at a time.
    connections: usize,
    /// Time for a request's head.
    head: Duration,
    /// Time that the peer has to say how it is.
    answer: Duration,
    /// Time for a connection in all.
    connection: Duration,
    /// Bytes of a request's head.
    head_bytes: usize,
}

impl Default for Limits {
    /// More than several monitoring systems need, which wait about ten seconds; the head's bytes are
    /// the least that hyper knows.
    fn default() -> Self {
        Self {
            connections: 256,
            head: Duration::from_secs(2),
            answer: Duration::from_secs(2),
            connection: Duration::from_secs(15),
            head_bytes: 8 << 10,
        }
    }
}

/// A running server; dropping it ends its thread.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    /// Dropped, it ends the thread.
    _stop: oneshot::Sender<()>,
}

impl MetricsServer {
    /// Serves what `ask` says of the peer `local`, on `listener`.
    ///
    /// # Errors
    /// What the system says of the listener, or of a new thread.
    pub fn start(listener: TcpListener, local: PeerId, ask: Ask) -> io::Result<Self> {
        Self::start_within(Limits::default(), listener, local, ask)
    }

    fn start_within(
        limits: Limits,
        listener: TcpListener,
        local: PeerId,
        ask: Ask,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new()
            .name("brickmesh-metrics".into())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        served = serve(limits, listener, Source { local, ask }) => {
                            let Err(error) = served;
                            tracing::warn!(%error, "metrics are not served any more");
                        }
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(Self {
            address,
            _stop: stop,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Where answers come from.
#[derive(Clone)]
struct Source {
    local: PeerId,
    ask: Ask,
}

async fn serve(limits: Limits, listener: TcpListener, source: Source) -> io::Result<Infallible> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(limits.connections));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "a connection for metrics was not taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let source = source.clone();
        tokio::spawn(async move {
            converse(limits, stream, source).await;
            drop(place);
        });
    }
}

/// One connection, to its end.
async fn converse(limits: Limits, stream: TcpStream, source: Source) {
    let answer = service_fn(move |request| {
        let source = source.clone();
        async move { Ok::<_, Infallible>(answer(limits, &request, source).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(limits.head_bytes)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer);
    match timeout(limits.connection, connection).await {
        Ok(Ok(())) => {}
        // Somebody else's mistake, and nothing that the operator could mend.
        Ok(Err(error)) => tracing::debug!(%error, "a request for metrics failed"),
        Err(_) => tracing::debug!("a request for metrics took too long"),
    }
}

async fn answer(limits: Limits, request: &Request<Incoming>, source: Source) -> Response<String> {
    let is_metrics = match request.uri().path() {
        "/metrics" => true,
        "/health" => false,
        _ => {
            let text = "there are /metrics and /health\n";
            return response(StatusCode::NOT_FOUND, "text/plain", text.to_owned());
        }
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let text = "only GET and HEAD\n".to_owned();
        let mut refused = response(StatusCode::METHOD_NOT_ALLOWED, "text/plain", text);
        let allowed = HeaderValue::from_static("GET, HEAD");
        refused.headers_mut().insert(ALLOW, allowed);
        return refused;
    }
    let Ok(Some(status)) = timeout(limits.answer, (source.ask)()).await else {
        let text = "the peer does not answer\n".to_owned();
        return response(StatusCode::SERVICE_UNAVAILABLE, "text/plain", text);
    };
    if !is_metrics {
        return response(StatusCode::OK, "application/json", health(&status));
    }
    match page(&source.local, &status) {
        Ok(text) => response(StatusCode::OK, TEXT_FORMAT, text),
        Err(error) => {
            let text = format!("{error}\n");
            response(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", text)
        }
    }
}

fn response(status: StatusCode, media: &'static str, text: String) -> Response<String> {
    let mut response = Response::new(text);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests;
