//! Who gets in: the noise handshake, with the mesh key mixed in as its prologue.
//!
//! The first message that is authenticated is the responder's; a dialler with another prologue
//! cannot decipher it, gives up before it has said who it is, and sends a frame that nobody can
//! decipher in place of its own. So both sides know at once that it was the key; a dialler that
//! merely leaves (another of its dials was faster) is not mistaken for one.
//!
//! Invariants: no stream and no protocol above this sees a peer without the key. A handshake that
//! is replayed fails: the responder's part is fresh each time. What somebody without the key
//! learns: that a peer is here and its id, which mDNS tells the local network anyway.
//! Not here: the key (`mesh_key`), the words for the operator (`refusals`).
//!
//! Source: Perrin, "The Noise Protocol Framework", revision 34, 2018, section 6 (prologue).

use futures::{
    AsyncRead, AsyncWrite, AsyncWriteExt, FutureExt,
    future::BoxFuture,
    io::{IoSlice, IoSliceMut},
};
use libp2p::{
    PeerId,
    core::upgrade::{InboundConnectionUpgrade, OutboundConnectionUpgrade, UpgradeInfo},
    identity::Keypair,
    noise,
};
use std::{
    error::Error,
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::sync::oneshot;

/// A noise frame of one byte, too short to be any message: "not with this key".
const REFUSAL: [u8; 3] = [0, 1, 0];

/// The handshake of every connection.
#[derive(Clone)]
pub(super) struct Admission(noise::Config);

/// A handshake that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AdmissionError {
    /// What came cannot be deciphered, or the other side says so of what was sent.
    #[error("the other side has another mesh key, or none")]
    AnotherKey,
    /// Something answered that knows no handshake of ours.
    #[error("what answers there is no peer of brickmesh")]
    NoPeer,
    /// Anything else, such as a connection that ends.
    #[error(transparent)]
    Noise(noise::Error),
}

impl Admission {
    /// For the peer with this identity, in the mesh whose key gives this prologue.
    pub(super) fn new(identity: &Keypair, prologue: Vec<u8>) -> Result<Self, noise::Error> {
        Ok(Self(noise::Config::new(identity)?.with_prologue(prologue)))
    }
}

/// Whether a failed connection failed because of the mesh key.
pub(super) fn is_another_key(error: &(dyn Error + 'static)) -> bool {
    chain(error).any(|e| matches!(e.downcast_ref(), Some(AdmissionError::AnotherKey)))
}

/// What the first cause of a failed connection says.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    chain(error).last().unwrap_or(error).to_string()
}

/// The error and what caused it. libp2p wraps errors in errors.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error: &&'a (dyn Error + 'static)| {
        // The source of an I/O error leaves out the error right inside of it.
        match error.downcast_ref::<io::Error>() {
            Some(wrapper) => wrapper
                .get_ref()
                .map(|inner| inner as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

impl From<noise::Error> for AdmissionError {
    fn from(error: noise::Error) -> Self {
        match error {
            noise::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                Self::AnotherKey
            }
            other => Self::Noise(other),
        }
    }
}

impl UpgradeInfo for Admission {
    type Info = <noise::Config as UpgradeInfo>::Info;
    type InfoIter = <noise::Config as UpgradeInfo>::InfoIter;

    fn protocol_info(&self) -> Self::InfoIter {
        self.0.protocol_info()
    }
}

type Admitted<S> = Result<(PeerId, noise::Output<Lent<S>>), AdmissionError>;

impl<S> InboundConnectionUpgrade<S> for Admission
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Output = (PeerId, noise::Output<Lent<S>>);
    type Error = AdmissionError;
    type Future = BoxFuture<'static, Admitted<S>>;

    fn upgrade_inbound(self, socket: S, info: Self::Info) -> Self::Future {
        let (socket, _) = Lent::new(socket);
        let handshake = self.0.upgrade_inbound(socket, info);
        async move { Ok(handshake.await?) }.boxed()
    }
}

impl<S> OutboundConnectionUpgrade<S> for Admission
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Output = (PeerId, noise::Output<Lent<S>>);
    type Error = AdmissionError;
    type Future = BoxFuture<'static, Admitted<S>>;

    fn upgrade_outbound(self, socket: S, info: Self::Info) -> Self::Future {
        let (socket, mut back) = Lent::new(socket);
        let handshake = self.0.upgrade_outbound(socket, info);
        async move {
            let error = match handshake.await {
                Ok(admitted) => return Ok(admitted),
                Err(error) => AdmissionError::from(error),
            };
            let AdmissionError::AnotherKey = error else {
                return Err(error);
            };
            // Rubbish before the first frame of noise is not about a key; and the socket, still in
            // the middle of agreeing on a protocol, panics where it is written to after that.
            let Some(socket) = back.try_recv().ok().and_then(Returned::if_read) else {
                return Err(AdmissionError::NoPeer);
            };
            if let Err(error) = refuse(socket).await {
                tracing::trace!(%error, "the other side is gone before it was refused");
            }
            Err(error)
        }
        .boxed()
    }
}

async fn refuse(mut socket: impl AsyncWrite + Unpin) -> io::Result<()> {
    socket.write_all(&REFUSAL).await?;
    socket.close().await
}

/// A socket that comes back to its lender when it is dropped, if he still waits for it: noise
/// keeps the one that it is given, and drops it when a handshake fails.
pub(super) struct Lent<S> {
    /// There until it is dropped.
    socket: Option<S>,
    /// Whether anything was read from it.
    is_read: bool,
    back: Option<oneshot::Sender<Returned<S>>>,
}

/// What the lender gets back.
struct Returned<S> {
    socket: S,
    is_read: bool,
}

impl<S> Returned<S> {
    /// The socket if anything was read from it: the other side has spoken the protocol.
    fn if_read(self) -> Option<S> {
        self.is_read.then_some(self.socket)
    }
}

impl<S> Lent<S> {
    fn new(socket: S) -> (Self, oneshot::Receiver<Returned<S>>) {
        let (back, returned) = oneshot::channel();
        let lent = Self {
            socket: Some(socket),
            is_read: false,
            back: Some(back),
        };
        (lent, returned)
    }

    fn socket(&mut self) -> io::Result<&mut S> {
        let gone = || io::Error::from(io::ErrorKind::NotConnected);
        self.socket.as_mut().ok_or_else(gone)
    }
}

impl<S> Drop for Lent<S> {
    fn drop(&mut self) {
        if let (Some(socket), Some(back)) = (self.socket.take(), self.back.take()) {
            // Nobody waits any more where the handshake went well: then this closes it.
            let is_read = self.is_read;
            drop(back.send(Returned { socket, is_read }));
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lent<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let read = Pin::new(self.socket()?).poll_read(cx, buffer);
        self.is_read |= matches!(read, Poll::Ready(Ok(1..)));
        read
    }

    fn poll_read_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let read = Pin::new(self.socket()?).poll_read_vectored(cx, buffers);
        self.is_read |= matches!(read, Poll::Ready(Ok(1..)));
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Lent<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.socket()?).poll_write(cx, buffer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.socket()?).poll_write_vectored(cx, buffers)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.socket()?).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.socket()?).poll_close(cx)
    }
}
