/* attach.c - the wrappers for a program without the preload object. */
#define PFW_OS_NO_POISON
#include "attach.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>

#include "../clock.h"
#include "../os.h"
#include "../say.h"
#include "../text.h"
#include "calls.h"
#include "calls_table.h"
#include "object.h"
#include "select.h"

#define NAMES 2048u
#define OTHERS 64u
_Static_assert(PFW_CALL_COUNT < NAMES / 2, "room in the hash of names");

/* Looks that repeat themselves after something was loaded: another thread may have been resolving a
 * slot when it was rewritten, or relocating an object. */
#define LOOKS_AGAIN 3u
#define LOCK_WAIT_NS 1000000000ull

static struct attach {
	_Atomic uint32_t busy; /* lock of what follows: a look is under way, or a fork */
	_Atomic bool on;
	bool held;  /* `busy`, by a fork */
	bool named; /* `row` is filled */
	bool said;  /* what cannot be done, once */
	/* The program defines the call itself: what is not resolved yet will lead there. */
	bool own[PFW_CALL_COUNT];
	uint16_t row[NAMES]; /* by the hash of the name, + 1; 0 = none */
	/* Versions of a call that are another function than its default one. */
	struct {
		uint32_t version;
		unsigned row;
	} other[OTHERS];
	unsigned other_count;
	unsigned long long adds, subs; /* of objects, as they were at the last look */
	unsigned objects;	       /* that it saw */
	/* So many of them were surely relocated when they were looked at: their own start-up code has
	 * told of them, or of later ones.  Others may have been looked at too early. */
	unsigned settled;
	_Atomic uint32_t again;
} attach;

/* ---- which calls ---- */

static uint32_t hash_name(const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return hash;
}

static void name_rows(void)
{
	size_t count;
	const struct pfw_call_info *info = pfw_calls_info(&count);

	for (size_t row = 0; row < count; row++) {
		uint32_t at = hash_name(info[row].name);

		while (attach.row[at % NAMES])
			at++;
		attach.row[at % NAMES] = (uint16_t)(row + 1);
	}
	attach.named = true;
}

/* The row of a name, or -1. */
static int row_of(const char *name)
{
	size_t count;
	const struct pfw_call_info *info = pfw_calls_info(&count);
	uint32_t at;

	if (name[0] == '_' && name[1] == 'Z') /* C++ has many, and long ones */
		return -1;
	for (at = hash_name(name); attach.row[at % NAMES]; at++)
		if (!strcmp(info[attach.row[at % NAMES] - 1].name, name))
			return attach.row[at % NAMES] - 1;
	return -1;
}

static void **real_calls(void)
{
	_Static_assert(sizeof(pfw_real) == PFW_CALL_COUNT * sizeof(void *), "one pointer a row");
	return (void **)&pfw_real;
}

/*
 * What the program's calls of a name lead to: the first definition, libc's or that of another tool
 * which stands before it.  But not the program's own: what is found there may also be just the
 * program's way to the call (its procedure linkage table), through a slot that will lead to us.
 */
static void find_real(unsigned row, const char *name)
{
	void *volatile found = dlsym(RTLD_DEFAULT, name);
	const ElfW(Sym) *symbol = NULL;
	struct link_map *map = NULL;
	Dl_info info;

	attach.own[row] = false;
	if (found && dladdr1(found, &info, (void **)&map, RTLD_DL_LINKMAP) && map && !map->l_prev) {
		attach.own[row] =
			dladdr1(found, &info, (void **)(uintptr_t)&symbol, RTLD_DL_SYMENT) &&
			symbol && symbol->st_shndx != SHN_UNDEF;
		found = dlsym(RTLD_NEXT, name);
	}
	real_calls()[row] = found;
}

static bool holds(const struct pfw_object *object, const void *address)
{
	return pfw_object_flags(object, (uintptr_t)address) != 0;
}

/*
 * libc keeps old versions of some calls for old programs (posix_spawn of 2.2.5): a slot that is not
 * resolved yet and asks for one of them must not be led to the new one.
 */
static int find_others(struct dl_phdr_info *info, size_t size, void *user)
{
	struct pfw_object libc;
	uint32_t count;

	(void)size;
	(void)user;
	if (!pfw_object_read(&libc, info) || !holds(&libc, (void *)gnu_get_libc_version))
		return 0;
	count = pfw_object_symbols(&libc);
	attach.other_count = 0;
	for (uint32_t i = 0; i < count && attach.other_count < OTHERS; i++) {
		const ElfW(Sym) *symbol = &libc.symbols[i];
		int row = symbol->st_shndx ? row_of(libc.strings + symbol->st_name) : -1;

		if (row < 0 || !holds(&libc, real_calls()[row]) ||
		    libc.base + symbol->st_value == (uintptr_t)real_calls()[row])
			continue;
		attach.other[attach.other_count].row = (unsigned)row;
		attach.other[attach.other_count++].version = pfw_object_version(&libc, i);
	}
	return 1;
}

static bool other_version(const struct pfw_object *object, uint32_t symbol, unsigned row)
{
	for (unsigned i = 0; i < attach.other_count; i++)
		if (attach.other[i].row == row &&
		    attach.other[i].version == pfw_object_version(object, symbol))
			return true;
	return false;
}

/* ---- what is mapped how ---- */

/* A stretch of memory; the protection is in the end's low bits. */
struct mapping {
	uintptr_t start, end;
};

#define MAPS_TEXT 65536u
#define MAPS_BYTES (MAPS_TEXT + 131072u * sizeof(struct mapping))

/* One look at all objects. */
struct look {
	bool all;	  /* also at those seen before */
	bool told;	  /* of a dlopen by its start-up code: what is new is relocated */
	unsigned seen;	  /* before, and not looked at again: so many of the list */
	unsigned objects; /* seen, in this look */
	int error;	  /* it could not be begun */
	char *maps;	  /* MAPS_BYTES: text, then mappings */
	size_t mapping_count;
	bool doubted; /* the map was read a second time */
	uintptr_t page_bytes;
	uintptr_t page; /* is writable for the moment; 0 = none */
	int page_prot;	/* and was this before */
	struct pfw_object program;
	/* The first object of which something cannot be redirected. */
	const char *why, *call;
	int why_error;
	char which[256];
};

static const char *hex(const char *at, uintptr_t *value)
{
	for (*value = 0;; at++) {
		if (*at >= '0' && *at <= '9')
			*value = *value << 4 | (uintptr_t)(*at - '0');
		else if (*at >= 'a' && *at <= 'f')
			*value = *value << 4 | (uintptr_t)(*at - 'a' + 10);
		else
			return at;
	}
}

static struct mapping *mappings(const struct look *look)
{
	return (struct mapping *)(look->maps + MAPS_TEXT);
}

static void add_mapping(struct look *look, const char *line)
{
	struct mapping *mapping = &mappings(look)[look->mapping_count];

	if (look->mapping_count == (MAPS_BYTES - MAPS_TEXT) / sizeof(*mapping))
		return;
	line = hex(line, &mapping->start);
	line = hex(line + 1, &mapping->end);
	mapping->end |= (line[1] == 'r' ? PROT_READ : 0u) | (line[2] == 'w' ? PROT_WRITE : 0u) |
			(line[3] == 'x' ? PROT_EXEC : 0u);
	look->mapping_count++;
}

static int read_maps(struct look *look)
{
	int fd = pfw_os_open("/proc/self/maps", O_RDONLY, 0);
	size_t used = 0;
	ssize_t n;

	if (fd < 0)
		return fd;
	while ((n = pfw_os_read(fd, look->maps + used, MAPS_TEXT - used)) > 0) {
		char *line = look->maps, *end;

		used += (size_t)n;
		while ((end = memchr(line, '\n', used))) {
			add_mapping(look, line);
			used -= (size_t)(end + 1 - line);
			line = end + 1;
		}
		memmove(look->maps, line, used);
	}
	pfw_os_close(fd);
	return (int)n;
}

/* PROT_* of an address as the object itself wants it once the linker has finished. */
static int prot_wanted(const struct pfw_object *object, uintptr_t address)
{
	uint32_t flags = pfw_object_flags(object, address);
	bool relro = address >= object->relro && address < object->relro_end;

	return (flags & PF_W && !relro ? PROT_WRITE : 0) | (flags & PF_X ? PROT_EXEC : 0) |
	       PROT_READ;
}

/* PROT_* of an address by the map, or -1. */
static int prot_mapped(const struct look *look, uintptr_t address)
{
	size_t low = 0, high = look->mapping_count;
	uintptr_t bits = look->page_bytes - 1;
	const struct mapping *mapping = mappings(look);

	while (low < high) {
		size_t middle = (low + high) / 2;

		if ((mapping[middle].end & ~bits) <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == look->mapping_count || mapping[low].start > address)
		return -1;
	return (int)(mapping[low].end & bits);
}

/*
 * PROT_* of an address, or -1.  Without a map (it takes a millisecond in a large program) of an object
 * that the linker has just finished.  A map that calls read-only what the object has writable is read
 * again: qemu-user makes its map of two moments, and a page that is "put back" read-only kills.
 */
static int prot_of(struct look *look, const struct pfw_object *object, uintptr_t address)
{
	int wanted = prot_wanted(object, address), prot;

	if (!look->maps)
		return wanted;
	prot = prot_mapped(look, address);
	if (prot < 0 || look->doubted || !(wanted & ~prot & PROT_WRITE))
		return prot;
	look->doubted = true;
	look->mapping_count = 0;
	return read_maps(look) ? prot : prot_mapped(look, address);
}

/* ---- writing ---- */

static void cannot(struct look *look, const struct pfw_object *object, const char *call,
		   const char *why)
{
	size_t bytes = strnlen(object->name, sizeof(look->which) - 1);

	if (look->why)
		return;
	look->why = why;
	look->call = call;
	memcpy(look->which, object->name, bytes);
	look->which[bytes] = '\0';
}

/* The page goes back to what it was. */
static void close_page(struct look *look)
{
	if (look->page)
		pfw_os_mprotect((void *)look->page, look->page_bytes, look->page_prot);
	look->page = 0;
}

/*
 * Make a word writable.  What the linker makes read-only when it has relocated an object, and is not
 * yet, belongs to a dlopen under way in another thread: a later look will find it done.
 */
static bool open_page(struct look *look, const struct pfw_object *object, uintptr_t word)
{
	uintptr_t page = word & ~(look->page_bytes - 1);
	int prot, error;

	if (page == look->page)
		return true;
	close_page(look);
	prot = prot_of(look, object, word);
	if (prot < 0)
		return false;
	if (prot & PROT_WRITE)
		return !atomic_load(&attach.on) || word < object->relro ||
		       word >= object->relro_end;
	if (prot & PROT_EXEC || !(pfw_object_flags(object, word) & PF_W)) {
		cannot(look, object, "I/O calls", "their addresses are in its program text");
		return false;
	}
	error = pfw_os_mprotect((void *)page, look->page_bytes, PROT_READ | PROT_WRITE);
	if (error) {
		look->why_error = look->why ? look->why_error : -error;
		cannot(look, object, "I/O calls", "their addresses cannot be made writable");
		return false;
	}
	look->page = page;
	look->page_prot = prot;
	return true;
}

/* Not resolved yet: it leads into the object's own text, which calls the linker. */
static bool unresolved(const struct pfw_object *object, const struct pfw_object_slot *slot,
		       const void *now)
{
	return slot->called && object->symbols[slot->symbol].st_shndx == SHN_UNDEF &&
	       pfw_object_flags(object, (uintptr_t)now) & PF_X;
}

/*
 * Not to the call that we know, but to an old version of it, or to another tool that does what we do:
 * left alone, and said.  Nothing to say of what leads to the object itself, to the program (which has
 * a slot of its own, or the function) or nowhere (an object that is not relocated yet).
 */
static void leads_elsewhere(struct look *look, const struct pfw_object *object, const void *now,
			    unsigned row)
{
	size_t count;

	if ((uintptr_t)now > object->base && now && !holds(object, now) &&
	    !holds(&look->program, now))
		cannot(look, object, pfw_calls_info(&count)[row].name,
		       "it leads to an old version, or to another tool");
}

/* Lead one slot to the wrapper, or back.  Threads may be calling through it. */
static void lead(struct look *look, const struct pfw_object *object,
		 const struct pfw_object_slot *slot, unsigned row)
{
	void *now = atomic_load_explicit(slot->word, memory_order_relaxed);
	void *real = real_calls()[row], *wrapper = pfw_wrappers[row], *to = wrapper;

	if (!atomic_load(&attach.on)) {
		if (now != wrapper)
			return;
		to = real;
	} else if (now == wrapper) {
		return;
	} else if (now != real) {
		bool open = unresolved(object, slot, now);

		if (!open)
			leads_elsewhere(look, object, now, row);
		if (!open || !real || attach.own[row] || other_version(object, slot->symbol, row))
			return;
	}
	if (open_page(look, object, (uintptr_t)slot->word))
		/* Release: the wrapper finds what it needs, pfw_real above all. */
		atomic_store_explicit(slot->word, to, memory_order_release);
}

static void rewrite(struct look *look, const struct pfw_object *object)
{
	struct pfw_object_slot slot;

	for (int i = 0; i < 2; i++) {
		for (size_t k = 0; k < object->relocation_count[i]; k++) {
			int row = -1;

			if (pfw_object_slot(object, &object->relocations[i][k], &slot))
				row = row_of(object->strings +
					     object->symbols[slot.symbol].st_name);
			if (row >= 0 && pfw_select_wraps((unsigned)row))
				lead(look, object, &slot, (unsigned)row);
		}
	}
	close_page(look);
}

/* ---- looking ---- */

/* At the program, the first in the list: is there anything to do? */
static bool begin_look(struct look *look, const struct dl_phdr_info *info)
{
	if (info->dlpi_adds == attach.adds && info->dlpi_subs == attach.subs && !look->all &&
	    !(look->told && attach.settled < attach.objects))
		return false;
	if (info->dlpi_subs != attach.subs) {
		look->all = true;
		attach.settled = 0;
	}
	look->seen = look->told ? attach.settled : attach.objects;
	attach.adds = info->dlpi_adds;
	attach.subs = info->dlpi_subs;
	look->page_bytes = getauxval(AT_PAGESZ);
	if (look->told && !look->all)
		return true;
	look->maps = pfw_os_mmap(MAPS_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	look->error = look->maps ? read_maps(look) : -ENOMEM;
	return !look->error;
}

static bool has_interpreter(const struct dl_phdr_info *info)
{
	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_INTERP)
			return true;
	return false;
}

static int visit(struct dl_phdr_info *info, size_t size, void *user)
{
	struct look *look = user;
	struct pfw_object object;

	(void)size;
	if (!look->objects && !begin_look(look, info))
		return 1;
	if (!pfw_object_read(&object, info))
		object.relocation_count[0] = object.relocation_count[1] = 0;
	if (!look->objects) {
		look->program = object;
		if (!has_interpreter(info))
			cannot(look, &object, "I/O calls", "it is statically linked");
	}
	look->objects++;
	if ((look->all || look->objects > look->seen) && !holds(&object, (void *)visit) &&
	    !holds(&object, (void *)gnu_get_libc_version))
		rewrite(look, &object);
	return 0;
}

/* Not for ever: a thread that forks may wait for the linker's lock, which this one holds in dlopen. */
static bool lock(void)
{
	uint64_t since = 0, now;

	while (atomic_exchange(&attach.busy, 1)) {
		now = pfw_clock_ns(CLOCK_MONOTONIC);
		since = since ? since : now;
		if (now - since > LOCK_WAIT_NS)
			return false;
		pfw_os_sleep_ns(20000);
	}
	return true;
}

static void unlock(void)
{
	atomic_store(&attach.busy, 0);
}

static void say_why(const struct look *look)
{
	char line[512];
	struct pfw_text text;

	if (attach.said || !look->why)
		return;
	attach.said = true;
	pfw_text_init(&text, line, sizeof(line));
	pfw_text_add(&text, "not recorded: ");
	pfw_text_add(&text, look->call);
	pfw_text_add(&text, " of ");
	pfw_text_add(&text, *look->which ? look->which : "the program");
	pfw_text_add(&text, ": ");
	pfw_text_add(&text, look->why);
	if (look->why_error) {
		pfw_text_add(&text, " (errno ");
		pfw_text_add_u64(&text, (uint64_t)look->why_error, 1);
		pfw_text_add(&text, "): start the program with `pfw run`");
	}
	pfw_say(line);
}

/* With all signals blocked: a handler that jumped out would leave the linker's lock behind.  The
 * line is printed when no lock is held. */
static int take_look(bool all, bool told)
{
	struct look look = { .all = all, .told = told };
	sigset_t every, old;

	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &old);
	if (!lock()) {
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		return -EBUSY;
	}
	dl_iterate_phdr(visit, &look);
	if (look.error)
		attach.adds = 0; /* so that the next look does not pass over what is new */
	if (look.objects) {
		attach.objects = look.objects;
		if (told)
			attach.settled = look.objects;
		if (!all)
			atomic_store(&attach.again, LOOKS_AGAIN);
	}
	if (look.maps)
		pfw_os_munmap(look.maps, MAPS_BYTES);
	unlock();
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	say_why(&look);
	return look.error;
}

void pfw_attach_look(void)
{
	uint32_t again = atomic_load(&attach.again);

	if (!atomic_load_explicit(&attach.on, memory_order_relaxed))
		return;
	if (again)
		atomic_compare_exchange_strong(&attach.again, &again, again - 1);
	take_look(again != 0, false);
}

/*
 * The start-up code that every object has from crti.o calls this name, where there is one, after
 * the object and what it needs have been relocated and before its constructors run: so we hear of
 * each dlopen in time, and need not wrap it.  Meant for profilers; a program built with -pg has its
 * own, and the few objects without crti.o do not call it: the writer's looks find those.
 */
__attribute__((visibility("default"))) void __gmon_start__(void);
/* A sanitizer's own runtime calls it, too, before memory may be checked. */
__attribute__((no_sanitize("address"))) void __gmon_start__(void)
{
	int error = errno;

	if (atomic_load_explicit(&attach.on, memory_order_relaxed))
		take_look(false, true);
	errno = error;
}

/* Found by those who are loaded later, also where we were opened out of sight (by Python). */
static void be_seen(void)
{
	Dl_info here;

	if (dladdr((void *)visit, &here) && here.dli_fname)
		dlopen(here.dli_fname, RTLD_NOLOAD | RTLD_LAZY | RTLD_GLOBAL);
}

int pfw_attach(void)
{
	size_t count;
	const struct pfw_call_info *info = pfw_calls_info(&count);
	int error;

	if (!attach.named)
		name_rows();
	for (unsigned row = 0; row < count; row++)
		find_real(row, info[row].name);
	dl_iterate_phdr(find_others, NULL);
	be_seen();
	dlerror(); /* a name that this libc does not have is not the program's error */
	atomic_store(&attach.on, true);
	atomic_store(&attach.again, LOOKS_AGAIN);
	error = take_look(true, false);
	if (error) {
		atomic_store(&attach.on, false);
		pfw_say_number("/proc/self/maps cannot be read (errno ", (uint64_t)-error,
			       "): I/O calls are not recorded; start the program with `pfw run`");
	}
	return error;
}

void pfw_detach(void)
{
	if (atomic_exchange(&attach.on, false))
		take_look(true, false);
}

void pfw_attach_hold(void)
{
	attach.held = lock();
}

void pfw_attach_release(bool child)
{
	if (attach.held || child)
		unlock();
	attach.held = false;
}
