//! Page memory by Linux userfaultfd; all unsafe code of it is in this file.
#![expect(unsafe_code, reason = "userfaultfd and mmap are system calls")]

use super::PageMemoryError;
use bytes::Bytes;
use std::{
    ffi::{c_int, c_long, c_void},
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr::{self, NonNull},
    sync::Arc,
    time::Duration,
};

/// Faults of user mode alone: `UFFD_USER_MODE_ONLY`.
const USER_MODE_ONLY: c_int = 1;
/// `UFFD_API`.
const API: u64 = 0xaa;
/// `UFFDIO_REGISTER_MODE_MISSING`.
const MISSING: u64 = 1;
/// `UFFD_EVENT_PAGEFAULT`.
const PAGE_FAULT: u8 = 0x12;
const IOCTL_API: u64 = request(0x3f, size_of::<ApiArguments>());
const IOCTL_REGISTER: u64 = request(0x00, size_of::<RegisterArguments>());
const IOCTL_COPY: u64 = request(0x03, size_of::<CopyArguments>());

/// `_IOWR(UFFDIO, number, …)`.
const fn request(number: u64, bytes: usize) -> u64 {
    3 << 30 | (bytes as u64) << 16 | API << 8 | number
}

/// `struct uffdio_api`: interface, features, requests.
type ApiArguments = [u64; 3];
/// `struct uffdio_register`: start, bytes, mode, requests.
type RegisterArguments = [u64; 4];

/// `struct uffdio_copy`.
#[repr(C)]
#[derive(Default)]
struct CopyArguments {
    to: u64,
    from: u64,
    bytes: u64,
    mode: u64,
    copied: i64,
}

/// `struct uffd_msg` of a page fault.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    kind: u8,
    reserved: [u8; 7],
    flags: u64,
    address: u64,
    thread: u64,
}

/// See the module.
#[derive(Debug)]
pub struct PageMemory {
    start: NonNull<u8>,
    slot_bytes: usize,
    slots: usize,
    page_bytes: usize,
    faults: OwnedFd,
}

// SAFETY: the range is this value's own until it is dropped; it is written by the kernel alone, each page at once.
unsafe impl Send for PageMemory {}
// SAFETY: as above.
unsafe impl Sync for PageMemory {}

impl PageMemory {
    /// So many slots for so many bytes each, all of them empty.
    ///
    /// # Errors
    /// [`PageMemoryError`].
    pub fn new(slots: usize, bytes: usize) -> Result<Arc<Self>, PageMemoryError> {
        let page_bytes = Self::page_bytes();
        let slot_bytes = bytes.max(1).next_multiple_of(page_bytes);
        let addresses = |error| PageMemoryError::Addresses {
            slots,
            slot_bytes,
            error,
        };
        let faults = open().map_err(PageMemoryError::Denied)?;
        let all = slots.max(1).checked_mul(slot_bytes);
        let all = all.ok_or_else(|| addresses(io::ErrorKind::OutOfMemory.into()))?;
        // SAFETY: a new range anywhere; nothing that is there is replaced.
        let start = unsafe {
            let (access, flags) = (
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            );
            libc::mmap(ptr::null_mut(), all, access, flags, -1, 0)
        };
        let start = NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED);
        let start = start.ok_or_else(|| addresses(io::Error::last_os_error()))?;
        let memory = Self {
            start,
            slot_bytes,
            slots: slots.max(1),
            page_bytes,
            faults,
        };
        let mut register: RegisterArguments = [start.as_ptr() as u64, all as u64, MISSING, 0];
        // SAFETY: the arguments are those of the request, and the range is this value's.
        unsafe { control(&memory.faults, IOCTL_REGISTER, &raw mut register) }
            .map_err(PageMemoryError::Denied)?;
        // Memory that is locked (`mlockall`) cannot be emptied.
        memory.try_empty(0).map_err(PageMemoryError::Denied)?;
        Ok(Arc::new(memory))
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_bytes() -> usize {
        // SAFETY: it takes no pointers.
        let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(bytes).map_or(4096, |bytes| bytes.max(1))
    }

    /// Bytes of a slot.
    #[must_use]
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// The first bytes of a slot. Whoever reads them waits until the slot is filled with as many, as often as it was emptied.
    ///
    /// # Panics
    /// Where the slot has fewer, or is none.
    #[must_use]
    pub fn view(self: &Arc<Self>, slot: usize, bytes: usize) -> Bytes {
        assert!(slot < self.slots && bytes <= self.slot_bytes, "outside");
        Bytes::from_owner(View {
            memory: Arc::clone(self),
            slot,
            bytes,
        })
    }

    /// Fills a slot, and lets go on whoever waits for it; pages of it that are there stay.
    ///
    /// # Errors
    /// What the kernel says: it has no memory.
    pub fn fill(&self, slot: usize, bytes: &[u8]) -> io::Result<()> {
        assert!(
            slot < self.slots && bytes.len() <= self.slot_bytes,
            "outside"
        );
        let (pages, rest) = bytes.split_at(bytes.len() - bytes.len() % self.page_bytes);
        self.fill_pages(slot, 0, pages)?;
        let mut last = rest.to_vec();
        last.resize(rest.len().next_multiple_of(self.page_bytes), 0);
        self.fill_pages(slot, pages.len(), &last)
    }

    /// Fills whole pages of a slot, from this byte of it on.
    fn fill_pages(&self, slot: usize, at: usize, pages: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < pages.len() {
            let mut copy = CopyArguments {
                to: self.at(slot) as u64 + (at + done) as u64,
                from: pages[done..].as_ptr() as u64,
                bytes: (pages.len() - done) as u64,
                ..CopyArguments::default()
            };
            // SAFETY: the arguments are those of the request; the pages are the slot's, and as many bytes are read.
            let result = unsafe { control(&self.faults, IOCTL_COPY, &raw mut copy) };
            done += usize::try_from(copy.copied).unwrap_or(0);
            match result {
                Ok(()) => {}
                Err(error) => match error.raw_os_error() {
                    // One page is there; the others may not be.
                    Some(libc::EEXIST) => done += self.page_bytes,
                    Some(libc::EAGAIN) => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// Empties a slot; whoever reads it waits until it is filled again.
    pub fn empty(&self, slot: usize) {
        if let Err(error) = self.try_empty(slot) {
            tracing::error!(%error, slot, "a slot of page memory stays filled");
        }
    }

    fn try_empty(&self, slot: usize) -> io::Result<()> {
        assert!(slot < self.slots, "outside");
        // SAFETY: the pages are the slot's; what is read of them later comes anew.
        let result =
            unsafe { libc::madvise(self.at(slot).cast(), self.slot_bytes, libc::MADV_DONTNEED) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// A slot that a thread waits for, of several maybe; `None`: nobody began to for so long. A slot that several wait for is told for each.
    ///
    /// # Errors
    /// What the system says.
    pub fn next_miss(&self, patience: Duration) -> io::Result<Option<usize>> {
        let mut poll = libc::pollfd {
            fd: self.faults.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let millis = c_int::try_from(patience.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: one entry.
        if unsafe { libc::poll(&raw mut poll, 1, millis) } <= 0 {
            return Ok(None);
        }
        let mut event = Event::default();
        // SAFETY: an event is as large.
        let bytes = unsafe {
            libc::read(
                self.faults.as_raw_fd(),
                (&raw mut event).cast::<c_void>(),
                size_of::<Event>(),
            )
        };
        if bytes < 0 {
            let error = io::Error::last_os_error();
            let is_none = error.kind() == io::ErrorKind::WouldBlock;
            return if is_none { Ok(None) } else { Err(error) };
        }
        let offset = event.address.checked_sub(self.start.as_ptr() as u64);
        let offset = offset.and_then(|o| usize::try_from(o).ok());
        let slot = offset.map(|offset| offset / self.slot_bytes);
        Ok(slot.filter(|&slot| event.kind == PAGE_FAULT && slot < self.slots))
    }

    fn at(&self, slot: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(slot * self.slot_bytes)
    }
}

impl Drop for PageMemory {
    fn drop(&mut self) {
        // SAFETY: the range is this value's, and no view of it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.slots * self.slot_bytes) };
    }
}

/// Bytes of a slot.
struct View {
    memory: Arc<PageMemory>,
    slot: usize,
    bytes: usize,
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the range lives as long as the memory, and its bytes change as the module says, at most.
        unsafe { std::slice::from_raw_parts(self.memory.at(self.slot), self.bytes) }
    }
}

/// A descriptor of which faults are told.
fn open() -> io::Result<OwnedFd> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
    // SAFETY: it takes no pointers.
    let fd: c_long = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = c_int::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: it was opened just now.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut api: ApiArguments = [API, 0, 0];
    // SAFETY: the arguments are those of the request.
    unsafe { control(&fd, IOCTL_API, &raw mut api) }?;
    Ok(fd)
}

/// # Safety
/// The arguments are those of the request.
unsafe fn control<A>(fd: &OwnedFd, request: u64, arguments: *mut A) -> io::Result<()> {
    // SAFETY: as this function's.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, arguments) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
