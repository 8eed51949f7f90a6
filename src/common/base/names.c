/* common/base/names.c - names of errno values, of kinds of PP events, and of args of calls. */
#include "common/base/names.h"

#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <linux/close_range.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/sockios.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/base/os.h"
#include "pfw/pfw.h"

/* clang-format off */
#define ERRNO_NAMES(X)                                                                             \
	X(EPERM) X(ENOENT) X(ESRCH) X(EINTR) X(EIO) X(ENXIO) X(E2BIG) X(ENOEXEC) X(EBADF)          \
	X(ECHILD) X(EAGAIN) X(ENOMEM) X(EACCES) X(EFAULT) X(ENOTBLK) X(EBUSY) X(EEXIST) X(EXDEV)   \
	X(ENODEV) X(ENOTDIR) X(EISDIR) X(EINVAL) X(ENFILE) X(EMFILE) X(ENOTTY) X(ETXTBSY)          \
	X(EFBIG) X(ENOSPC) X(ESPIPE) X(EROFS) X(EMLINK) X(EPIPE) X(EDOM) X(ERANGE) X(EDEADLK)      \
	X(ENAMETOOLONG) X(ENOLCK) X(ENOSYS) X(ENOTEMPTY) X(ELOOP) X(ENOMSG) X(EIDRM) X(ECHRNG)     \
	X(EL2NSYNC) X(EL3HLT) X(EL3RST) X(ELNRNG) X(EUNATCH) X(ENOCSI) X(EL2HLT) X(EBADE)          \
	X(EBADR) X(EXFULL) X(ENOANO) X(EBADRQC) X(EBADSLT) X(EBFONT) X(ENOSTR) X(ENODATA) X(ETIME) \
	X(ENOSR) X(ENONET) X(ENOPKG) X(EREMOTE) X(ENOLINK) X(EADV) X(ESRMNT) X(ECOMM) X(EPROTO)    \
	X(EMULTIHOP) X(EDOTDOT) X(EBADMSG) X(EOVERFLOW) X(ENOTUNIQ) X(EBADFD) X(EREMCHG)           \
	X(ELIBACC) X(ELIBBAD) X(ELIBSCN) X(ELIBMAX) X(ELIBEXEC) X(EILSEQ) X(ERESTART) X(ESTRPIPE)  \
	X(EUSERS) X(ENOTSOCK) X(EDESTADDRREQ) X(EMSGSIZE) X(EPROTOTYPE) X(ENOPROTOOPT)             \
	X(EPROTONOSUPPORT) X(ESOCKTNOSUPPORT) X(EOPNOTSUPP) X(EPFNOSUPPORT) X(EAFNOSUPPORT)        \
	X(EADDRINUSE) X(EADDRNOTAVAIL) X(ENETDOWN) X(ENETUNREACH) X(ENETRESET) X(ECONNABORTED)     \
	X(ECONNRESET) X(ENOBUFS) X(EISCONN) X(ENOTCONN) X(ESHUTDOWN) X(ETOOMANYREFS) X(ETIMEDOUT)  \
	X(ECONNREFUSED) X(EHOSTDOWN) X(EHOSTUNREACH) X(EALREADY) X(EINPROGRESS) X(ESTALE)          \
	X(EUCLEAN) X(ENOTNAM) X(ENAVAIL) X(EISNAM) X(EREMOTEIO) X(EDQUOT) X(ENOMEDIUM)             \
	X(EMEDIUMTYPE) X(ECANCELED) X(ENOKEY) X(EKEYEXPIRED) X(EKEYREVOKED) X(EKEYREJECTED)        \
	X(EOWNERDEAD) X(ENOTRECOVERABLE) X(ERFKILL) X(EHWPOISON)
/* clang-format on */

const char *pfw_errno_name(int error)
{
	static const char *const names[] = {
#define X(name) [name] = #name,
		ERRNO_NAMES(X)
#undef X
	};

	return error > 0 && (size_t)error < PFW_ARRAY_LEN(names) ? names[error] : NULL;
}
#undef ERRNO_NAMES

const char *pfw_kind_name(uint64_t kind)
{
	static const char *const names[] = {
#define X(name, text) [PFW_KIND_##name] = text,
		PFW_KINDS(X)
#undef X
	};

	return kind < PFW_ARRAY_LEN(names) ? names[kind] : NULL;
}

/* ---- the numbers that calls take: flags, commands, places ----
 *
 * A row gives the bits that it looks at, their value, and its name.  Rows with the value 0 come
 * first, combinations before their parts.
 */

struct row {
	uint32_t mask, value;
	const char *name;
};

/* Of headers that older systems lack. */
#ifndef RWF_NOAPPEND
#define RWF_NOAPPEND 0x20
#endif
#ifndef MFD_EXEC
#define MFD_NOEXEC_SEAL 8u
#define MFD_EXEC 16u
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

/* clang-format off */
#define BITS(name) { (uint32_t)(name), (uint32_t)(name), #name },
#define ALL(name) { UINT32_MAX, (uint32_t)(name), #name },
#define IN(mask, name) { (mask), (uint32_t)(name), #name },

static const struct row none_names[] = { { 0, 1, "" } };
#define OPEN_MORE \
	BITS(O_CREAT) BITS(O_EXCL) BITS(O_NOCTTY) BITS(O_TRUNC) BITS(O_APPEND) BITS(O_NONBLOCK) \
	BITS(O_SYNC) BITS(O_DSYNC) BITS(O_ASYNC) BITS(O_DIRECT) BITS(O_TMPFILE) BITS(O_DIRECTORY) \
	BITS(O_NOFOLLOW) BITS(O_NOATIME) BITS(O_CLOEXEC) BITS(O_PATH)
static const struct row opens_names[] = {
	IN(O_ACCMODE, O_RDONLY) IN(O_ACCMODE, O_WRONLY) IN(O_ACCMODE, O_RDWR) OPEN_MORE
};
static const struct row opens_more_names[] = { OPEN_MORE };
static const struct row memfd_names[] = {
	BITS(MFD_CLOEXEC) BITS(MFD_ALLOW_SEALING) BITS(MFD_HUGETLB) BITS(MFD_NOEXEC_SEAL) BITS(MFD_EXEC)
};
static const struct row close_range_names[] = { BITS(CLOSE_RANGE_UNSHARE) BITS(CLOSE_RANGE_CLOEXEC) };
static const struct row rwf_names[] = {
	BITS(RWF_HIPRI) BITS(RWF_DSYNC) BITS(RWF_SYNC) BITS(RWF_NOWAIT) BITS(RWF_APPEND) BITS(RWF_NOAPPEND)
};
static const struct row whence_names[] = {
	ALL(SEEK_SET) ALL(SEEK_CUR) ALL(SEEK_END) ALL(SEEK_DATA) ALL(SEEK_HOLE)
};
static const struct row sync_range_names[] = {
	BITS(SYNC_FILE_RANGE_WAIT_BEFORE) BITS(SYNC_FILE_RANGE_WRITE) BITS(SYNC_FILE_RANGE_WAIT_AFTER)
};
static const struct row splice_names[] = {
	BITS(SPLICE_F_MOVE) BITS(SPLICE_F_NONBLOCK) BITS(SPLICE_F_MORE) BITS(SPLICE_F_GIFT)
};
#define AT BITS(AT_SYMLINK_NOFOLLOW) BITS(AT_SYMLINK_FOLLOW) BITS(AT_NO_AUTOMOUNT) BITS(AT_EMPTY_PATH)
static const struct row at_names[] = { AT BITS(AT_STATX_FORCE_SYNC) BITS(AT_STATX_DONT_SYNC) };
static const struct row at_access_names[] = { BITS(AT_EACCESS) AT };
static const struct row at_unlink_names[] = { BITS(AT_REMOVEDIR) };
static const struct row xattr_names[] = { BITS(XATTR_CREATE) BITS(XATTR_REPLACE) };
static const struct row rename_names[] = { BITS(RENAME_NOREPLACE) BITS(RENAME_EXCHANGE) BITS(RENAME_WHITEOUT) };
static const struct row ftw_names[] = {
	BITS(FTW_PHYS) BITS(FTW_MOUNT) BITS(FTW_CHDIR) BITS(FTW_DEPTH) BITS(FTW_ACTIONRETVAL)
};
static const struct row glob_names[] = {
	BITS(GLOB_ERR) BITS(GLOB_MARK) BITS(GLOB_NOSORT) BITS(GLOB_DOOFFS) BITS(GLOB_NOCHECK) BITS(GLOB_APPEND)
	BITS(GLOB_NOESCAPE) BITS(GLOB_PERIOD) BITS(GLOB_ALTDIRFUNC) BITS(GLOB_BRACE) BITS(GLOB_NOMAGIC)
	BITS(GLOB_TILDE) BITS(GLOB_ONLYDIR) BITS(GLOB_TILDE_CHECK)
};
static const struct row fts_names[] = {
	BITS(FTS_COMFOLLOW) BITS(FTS_LOGICAL) BITS(FTS_NOCHDIR) BITS(FTS_NOSTAT) BITS(FTS_PHYSICAL)
	BITS(FTS_SEEDOT) BITS(FTS_XDEV) BITS(FTS_WHITEOUT)
};
static const struct row fcntl_names[] = {
	ALL(F_DUPFD) ALL(F_GETFD) ALL(F_SETFD) ALL(F_GETFL) ALL(F_SETFL) ALL(F_GETLK) ALL(F_SETLK) ALL(F_SETLKW)
	ALL(F_SETOWN) ALL(F_GETOWN) ALL(F_SETSIG) ALL(F_GETSIG) ALL(F_SETOWN_EX) ALL(F_GETOWN_EX)
	ALL(F_OFD_GETLK) ALL(F_OFD_SETLK) ALL(F_OFD_SETLKW) ALL(F_SETLEASE) ALL(F_GETLEASE) ALL(F_NOTIFY)
	ALL(F_DUPFD_CLOEXEC) ALL(F_SETPIPE_SZ) ALL(F_GETPIPE_SZ) ALL(F_ADD_SEALS) ALL(F_GET_SEALS)
	ALL(F_GET_RW_HINT) ALL(F_SET_RW_HINT) ALL(F_GET_FILE_RW_HINT) ALL(F_SET_FILE_RW_HINT)
};
static const struct row lockf_names[] = { ALL(F_ULOCK) ALL(F_LOCK) ALL(F_TLOCK) ALL(F_TEST) };
static const struct row flock_names[] = { BITS(LOCK_SH) BITS(LOCK_EX) BITS(LOCK_UN) BITS(LOCK_NB) };
static const struct row ioctl_names[] = {
	ALL(TCGETS) ALL(TCSETS) ALL(TCSETSW) ALL(TCSETSF) ALL(TCSBRK) ALL(TCXONC) ALL(TCFLSH) ALL(TIOCSCTTY)
	ALL(TIOCGPGRP) ALL(TIOCSPGRP) ALL(TIOCOUTQ) ALL(TIOCGWINSZ) ALL(TIOCSWINSZ) ALL(TIOCNOTTY) ALL(TIOCGSID)
	ALL(TIOCGPTN) ALL(TIOCSPTLCK) ALL(FIONREAD) ALL(FIONBIO) ALL(FIONCLEX) ALL(FIOCLEX) ALL(FIOASYNC)
	ALL(FIOQSIZE) ALL(FIBMAP) ALL(FIGETBSZ) ALL(FIFREEZE) ALL(FITHAW) ALL(FITRIM) ALL(FICLONE)
	ALL(FICLONERANGE) ALL(FIDEDUPERANGE) ALL(FS_IOC_GETFLAGS) ALL(FS_IOC_SETFLAGS) ALL(FS_IOC_FIEMAP)
	ALL(FS_IOC_FSGETXATTR) ALL(FS_IOC_FSSETXATTR) ALL(BLKGETSIZE) ALL(BLKGETSIZE64) ALL(BLKSSZGET)
	ALL(BLKFLSBUF) ALL(BLKDISCARD) ALL(SIOCGIFCONF) ALL(SIOCGIFFLAGS) ALL(SIOCGIFADDR) ALL(SIOCGIFINDEX)
	ALL(SIOCGIFHWADDR)
};
static const struct row prot_names[] = { ALL(PROT_NONE) BITS(PROT_READ) BITS(PROT_WRITE) BITS(PROT_EXEC) };
static const struct row map_names[] = {
	IN(MAP_TYPE, MAP_SHARED) IN(MAP_TYPE, MAP_PRIVATE) IN(MAP_TYPE, MAP_SHARED_VALIDATE)
	BITS(MAP_FIXED) BITS(MAP_ANONYMOUS) BITS(MAP_GROWSDOWN) BITS(MAP_DENYWRITE) BITS(MAP_EXECUTABLE)
	BITS(MAP_LOCKED) BITS(MAP_NORESERVE) BITS(MAP_POPULATE) BITS(MAP_NONBLOCK) BITS(MAP_STACK)
	BITS(MAP_HUGETLB) BITS(MAP_SYNC) BITS(MAP_FIXED_NOREPLACE)
};
static const struct row mremap_names[] = { BITS(MREMAP_MAYMOVE) BITS(MREMAP_FIXED) BITS(MREMAP_DONTUNMAP) };
static const struct row msync_names[] = { BITS(MS_ASYNC) BITS(MS_INVALIDATE) BITS(MS_SYNC) };
static const struct row fadvise_names[] = {
	ALL(POSIX_FADV_NORMAL) ALL(POSIX_FADV_RANDOM) ALL(POSIX_FADV_SEQUENTIAL) ALL(POSIX_FADV_WILLNEED)
	ALL(POSIX_FADV_DONTNEED) ALL(POSIX_FADV_NOREUSE)
};
static const struct row madvise_names[] = {
	ALL(MADV_NORMAL) ALL(MADV_RANDOM) ALL(MADV_SEQUENTIAL) ALL(MADV_WILLNEED) ALL(MADV_DONTNEED) ALL(MADV_FREE)
	ALL(MADV_REMOVE) ALL(MADV_DONTFORK) ALL(MADV_DOFORK) ALL(MADV_MERGEABLE) ALL(MADV_UNMERGEABLE)
	ALL(MADV_HUGEPAGE) ALL(MADV_NOHUGEPAGE) ALL(MADV_DONTDUMP) ALL(MADV_DODUMP) ALL(MADV_WIPEONFORK)
	ALL(MADV_KEEPONFORK) ALL(MADV_COLD) ALL(MADV_PAGEOUT) ALL(MADV_POPULATE_READ) ALL(MADV_POPULATE_WRITE)
};
static const struct row posix_madvise_names[] = {
	ALL(POSIX_MADV_NORMAL) ALL(POSIX_MADV_RANDOM) ALL(POSIX_MADV_SEQUENTIAL) ALL(POSIX_MADV_WILLNEED)
	ALL(POSIX_MADV_DONTNEED)
};
static const struct row clone_names[] = {
	IN(0xff, SIGCHLD) BITS(CLONE_VM) BITS(CLONE_FS) BITS(CLONE_FILES) BITS(CLONE_SIGHAND) BITS(CLONE_PIDFD)
	BITS(CLONE_PTRACE) BITS(CLONE_VFORK) BITS(CLONE_PARENT) BITS(CLONE_THREAD) BITS(CLONE_NEWNS)
	BITS(CLONE_SYSVSEM) BITS(CLONE_SETTLS) BITS(CLONE_PARENT_SETTID) BITS(CLONE_CHILD_CLEARTID)
	BITS(CLONE_UNTRACED) BITS(CLONE_CHILD_SETTID) BITS(CLONE_NEWCGROUP) BITS(CLONE_NEWUTS) BITS(CLONE_NEWIPC)
	BITS(CLONE_NEWUSER) BITS(CLONE_NEWPID) BITS(CLONE_NEWNET) BITS(CLONE_IO)
};
static const struct row aio_fsync_names[] = { ALL(O_SYNC) ALL(O_DSYNC) };
static const struct row sockets_names[] = { BITS(SOCK_NONBLOCK) BITS(SOCK_CLOEXEC) };
static const struct row messages_names[] = {
	BITS(MSG_OOB) BITS(MSG_PEEK) BITS(MSG_DONTROUTE) BITS(MSG_TRUNC) BITS(MSG_DONTWAIT) BITS(MSG_EOR)
	BITS(MSG_WAITALL) BITS(MSG_CONFIRM) BITS(MSG_ERRQUEUE) BITS(MSG_NOSIGNAL) BITS(MSG_MORE)
	BITS(MSG_WAITFORONE) BITS(MSG_ZEROCOPY) BITS(MSG_FASTOPEN) BITS(MSG_CMSG_CLOEXEC)
};

static const struct {
	const struct row *row;
	uint32_t count;
} sets[] = {
#define X(set) { set##_names, PFW_ARRAY_LEN(set##_names) },
	PFW_NAMES(X)
#undef X
};
/* clang-format on */

/* What no row takes. */
static char *put_rest(char *out, uint32_t rest)
{
	static const char digits[] = "0123456789abcdef";
	int shift = 28;

	if (rest)
		out = stpcpy(out, "0x");
	while (shift && !(rest >> shift))
		shift -= 4;
	for (; shift >= 0; shift -= 4)
		*out++ = digits[rest >> shift & 15];
	return out;
}

char *pfw_arg_names(char *out, unsigned set, uint64_t value)
{
	uint32_t left = (uint32_t)value; /* the kernel takes an int of all of these */
	char *begin = out;

	for (uint32_t i = 0; set < PFW_NAMES_SETS && i < sets[set].count; i++) {
		const struct row *row = &sets[set].row[i];

		if ((left & row->mask) != row->value)
			continue;
		if (out > begin)
			*out++ = '|';
		out = stpcpy(out, row->name);
		left &= ~row->mask;
	}
	if (left && out > begin)
		*out++ = '|';
	return left || out == begin ? put_rest(out, left) : out;
}
