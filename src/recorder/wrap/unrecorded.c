/* recorder/wrap/unrecorded.c - finds io_uring rings and AIO contexts in /proc: see unrecorded.h. */
#include "recorder/wrap/unrecorded.h"

#include "common/base/os.h"
#include "common/base/text.h"
#include "common/format/clock.h"
#include "recorder/spool/strings.h"

#define FOUND_MAX 256u
#define RECORDED_MAX 16u
#define NO_FD (-1)     /* not searched yet */
#define HIDDEN_FD (-2) /* the ring has no descriptor here, so its count cannot be read */

/* Often at first, since short programs have short-lived rings; later less often, since reading the
 * memory map of a large program takes 1 ms. */
#define FIRST_PAUSE_NS 5000000ull
#define LONGEST_PAUSE_NS 1000000000ull

static const char ring_name[] = "anon_inode:[io_uring]";
static const char context_name[] = "/[aio]";

/*
 * A ring, identified by its inode, or an AIO context, identified by its address (which is its id).
 */
struct found {
	uint64_t key;
	int fd;	       /* a ring's */
	uint32_t head; /* a ring's: operations consumed at the last look, modulo 2^32 */
	bool ring;
	bool inherited; /* it is the parent's, which counts it */
	bool mapped;	/* still in the memory map */
};

static struct {
	_Atomic uint32_t busy;
	uint64_t next_ns, pause_ns;
	uint64_t forked_ns;  /* time of this process's fork; 0 = not forked */
	uint64_t operations; /* operations consumed from this process's rings */
	unsigned count;
	struct found found[FOUND_MAX];
	char text[8192]; /* static, to keep it off the stack of a thread that calls exit() */
} look;

static _Atomic uint64_t entered;
static _Atomic uint64_t recorded_context[RECORDED_MAX];

void pfw_unrecorded_entered(uint64_t operations)
{
	atomic_fetch_add_explicit(&entered, operations, memory_order_relaxed);
}

void pfw_unrecorded_submitted(uint64_t context)
{
	for (unsigned i = 0; i < RECORDED_MAX; i++) {
		uint64_t none = 0;

		if (atomic_load_explicit(&recorded_context[i], memory_order_relaxed) == context ||
		    atomic_compare_exchange_strong(&recorded_context[i], &none, context))
			return;
	}
}

static bool is_recorded(uint64_t context)
{
	for (unsigned i = 0; i < RECORDED_MAX; i++)
		if (atomic_load_explicit(&recorded_context[i], memory_order_relaxed) == context)
			return true;
	return false;
}

/* ---- the memory map ---- */

static void add_mapping(bool ring, uint64_t key)
{
	for (unsigned i = 0; i < look.count; i++) {
		if (look.found[i].ring == ring && look.found[i].key == key) {
			look.found[i].mapped = true;
			return;
		}
	}
	if (look.count < FOUND_MAX)
		look.found[look.count++] =
			(struct found){ .key = key, .fd = NO_FD, .ring = ring, .mapped = true };
}

/* "7f8c-7f8d rw-s 10000000 00:10 3907161      anon_inode:[io_uring]" */
static void take_mapping(void *user, const char *line, const char *end)
{
	const char *name, *inode = line;
	uint64_t number;

	(void)user;
	if (end == line ||
	    (end[-1] != ']' && end[-1] != ')')) /* names of libraries end in neither */
		return;
	name = strrchr(line, ' ');
	name = name ? name + 1 : line;
	if (!strcmp(name, "(deleted)") && name - line > (long)sizeof(context_name)) {
		name -= sizeof(context_name);
		if (!strncmp(name, context_name, sizeof(context_name) - 1) && name[-1] == ' ') {
			pfw_text_hex(line, &number);
			add_mapping(false, number);
		}
	} else if (!strcmp(name, ring_name)) {
		for (int field = 0; field < 4 && inode; field++)
			inode = strchr(inode + (field > 0), ' ');
		if (inode && pfw_text_read_u64(inode + 1, &number))
			add_mapping(true, number);
	}
}

/* ---- rings ---- */

static void proc_path(char path[64], const char *directory, uint64_t fd)
{
	struct pfw_text text;

	pfw_text_init(&text, path, 64);
	pfw_text_add(&text, directory);
	pfw_text_add_u64(&text, fd, 1);
}

/* The inode of a descriptor of the process (not of the calling thread); 0: none, or unknown. */
static uint64_t inode_of(uint64_t fd)
{
	char path[64];
	struct stat st;

	proc_path(path, "/proc/self/fd/", fd);
	return pfw_syscall6(SYS_newfstatat, AT_FDCWD, (long)path, (long)&st, 0, 0, 0) ? 0
										      : st.st_ino;
}

static bool is_ring(uint64_t fd)
{
	char path[64], target[sizeof(ring_name)];

	proc_path(path, "/proc/self/fd/", fd);
	return pfw_os_readlink(path, target, sizeof(target)) == sizeof(ring_name) - 1 &&
	       !memcmp(target, ring_name, sizeof(ring_name) - 1);
}

static void take_descriptor(const char *name)
{
	uint64_t fd, inode;

	if (!pfw_text_read_u64(name, &fd) || !is_ring(fd))
		return;
	inode = inode_of(fd);
	for (unsigned i = 0; i < look.count; i++)
		if (look.found[i].ring && look.found[i].key == inode)
			look.found[i].fd = (int)fd;
}

/* Find the descriptors of the rings. */
static void read_descriptors(void)
{
	int fd = pfw_os_open("/proc/self/fd", O_RDONLY | O_DIRECTORY, 0);
	long bytes;

	if (fd < 0)
		return;
	while ((bytes = pfw_syscall6(SYS_getdents64, fd, (long)look.text, sizeof(look.text), 0, 0,
				     0)) > 0) {
		/* struct linux_dirent64: inode, offset, then length at 16 and the name at 19 */
		for (long at = 0; at < bytes;) {
			uint16_t length;

			memcpy(&length, look.text + at + 16, sizeof(length));
			take_descriptor(look.text + at + 19);
			at += length;
		}
	}
	pfw_os_close(fd);
}

/* Add the operations consumed from the ring since the last look. */
static void read_ring(struct found *ring)
{
	char path[64], text[512];
	const char *at;
	uint64_t head;

	proc_path(path, "/proc/self/fdinfo/", (uint64_t)ring->fd);
	pfw_os_read_file(path, text, sizeof(text));
	at = strstr(text, "\nSqHead:\t");
	if (!at || !pfw_text_read_u64(at + strlen("\nSqHead:\t"), &head))
		return;
	if (!ring->inherited)
		look.operations += (uint32_t)head - ring->head;
	ring->head = (uint32_t)head;
}

static void read_rings(void)
{
	bool unknown = false;

	for (unsigned i = 0; i < look.count; i++) {
		struct found *one = &look.found[i];

		if (one->ring && one->mapped && one->fd >= 0 &&
		    inode_of((uint64_t)one->fd) != one->key)
			one->fd = NO_FD;
		unknown |= one->ring && one->mapped && one->fd == NO_FD;
	}
	if (unknown)
		read_descriptors();
	for (unsigned i = 0; i < look.count; i++) {
		struct found *one = &look.found[i];

		if (!one->ring || !one->mapped)
			continue;
		if (one->fd >= 0)
			read_ring(one);
		else
			one->fd = HIDDEN_FD;
	}
}

/* ---- the counts ---- */

/* Store the totals.  Return whether this process has any ring or context. */
static bool tell(_Atomic uint64_t counts[PFW_UNRECORDED_KINDS])
{
	uint64_t known = atomic_load_explicit(&entered, memory_order_relaxed);
	uint64_t operations = look.operations > known ? look.operations - known : 0;
	uint64_t rings = 0, hidden = 0, contexts = 0;
	bool any = false;

	for (unsigned i = 0; i < look.count; i++) {
		const struct found *one = &look.found[i];

		if (one->inherited)
			continue;
		any |= one->mapped;
		rings += one->ring;
		hidden += one->ring && one->fd == HIDDEN_FD;
		contexts += !one->ring && !is_recorded(one->key);
	}
	atomic_store(&counts[PFW_UNRECORDED_OPERATIONS], operations);
	atomic_store(&counts[PFW_UNRECORDED_RINGS], operations ? rings : hidden);
	atomic_store(&counts[PFW_UNRECORDED_CONTEXTS], contexts);
	return any;
}

/* A child that has just been forked has no rings, unless its parent had some. */
static bool is_too_young(uint64_t now)
{
	return look.forked_ns && !look.count && now - look.forked_ns < FIRST_PAUSE_NS &&
	       !atomic_load(&entered);
}

static void look_around(void)
{
	for (unsigned i = 0; i < look.count; i++)
		look.found[i].mapped = false;
	/* By thread: a process whose main thread has ended has no /proc/self/maps. */
	pfw_os_read_lines("/proc/thread-self/maps", look.text, sizeof(look.text), take_mapping,
			  NULL);
	read_rings();
}

void pfw_unrecorded_goes(uint32_t name)
{
	uint32_t bytes;
	const char *text = pfw_strings_text(name, &bytes);

	if (!text || bytes != sizeof(ring_name) - 1 || memcmp(text, ring_name, bytes) ||
	    atomic_exchange(&look.busy, 1))
		return;
	look_around();
	atomic_store(&look.busy, 0);
}

bool pfw_unrecorded_look(_Atomic uint64_t counts[PFW_UNRECORDED_KINDS], bool last)
{
	uint64_t now = pfw_clock_ns(CLOCK_MONOTONIC);
	bool any = false;

	/* Another thread is looking and will finish soon. */
	for (int waits = 0; atomic_exchange(&look.busy, 1); waits++) {
		if (!last || waits == 1000)
			return false;
		pfw_os_sleep_ns(50000);
	}
	if ((last && !is_too_young(now)) || (!last && now >= look.next_ns)) {
		look_around();
		look.pause_ns = look.pause_ns ? look.pause_ns * 2 : FIRST_PAUSE_NS;
		if (look.pause_ns > LONGEST_PAUSE_NS)
			look.pause_ns = LONGEST_PAUSE_NS;
		look.next_ns = now + look.pause_ns;
	}
	any = tell(counts);
	atomic_store(&look.busy, 0);
	return any;
}

void pfw_unrecorded_forked(void)
{
	atomic_store(&look.busy, 0);
	atomic_store(&entered, 0);
	for (unsigned i = 0; i < look.count; i++)
		look.found[i].inherited = true;
	look.operations = 0;
	look.next_ns = look.pause_ns = 0;
	look.forked_ns = pfw_clock_ns(CLOCK_MONOTONIC);
}
