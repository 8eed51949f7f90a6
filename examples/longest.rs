// longest.rs - prints the length of the longest event of a trace, by libpfwread, without a crate.
//
//	rustc --edition 2021 longest.rs -l pfwread && ./longest t
use std::ffi::{c_void, CStr, CString};
use std::os::raw::{c_char, c_int};

#[repr(C)]
struct ArrowArray {
    length: i64, null_count: i64, offset: i64, n_buffers: i64, n_children: i64,
    buffers: *const *const c_void,
    children: *const *const ArrowArray,
    dictionary: *const ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut c_void) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

extern "C" {
    fn pfw_read_new() -> *mut c_void;
    fn pfw_read_free(read: *mut c_void);
    fn pfw_read_path(read: *mut c_void, path: *const c_char) -> c_int;
    fn pfw_read_set(read: *mut c_void, option: *const c_char, value: *const c_char) -> c_int;
    fn pfw_read_stream(read: *mut c_void, stream: *mut ArrowArrayStream) -> c_int;
    fn pfw_read_error(read: *const c_void) -> *const c_char;
}

fn main() {
    let text = |text: &str| CString::new(text).unwrap();
    let path = text(&std::env::args().nth(1).expect("a trace"));
    unsafe {
        let read = pfw_read_new();
        let mut stream: ArrowArrayStream = std::mem::zeroed();
        pfw_read_path(read, path.as_ptr());
        pfw_read_set(read, text("columns").as_ptr(), text("dur").as_ptr());
        if pfw_read_stream(read, &mut stream) != 0 {
            eprintln!("{}", CStr::from_ptr(pfw_read_error(read)).to_string_lossy());
            std::process::exit(2);
        }
        let mut longest = 0;
        loop {
            let mut batch: ArrowArray = std::mem::zeroed();
            assert_eq!(stream.get_next.unwrap()(&mut stream, &mut batch), 0);
            let release = match batch.release { Some(release) => release, None => break };
            let dur = &**batch.children;
            let valid = *dur.buffers as *const u8; // null: all are
            let ns = *dur.buffers.add(1) as *const i64;
            for i in 0..dur.length as usize {
                if valid.is_null() || *valid.add(i / 8) >> (i % 8) & 1 == 1 {
                    longest = longest.max(*ns.add(i));
                }
            }
            release(&mut batch);
        }
        println!("{longest} ns");
        stream.release.unwrap()(&mut stream);
        pfw_read_free(read);
    }
}
