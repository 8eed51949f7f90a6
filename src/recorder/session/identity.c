/* recorder/session/identity.c - finds out who this process is, and a traced ancestor. */
#include "recorder/session/identity.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>

#include "common/base/os.h"
#include "common/base/text.h"
#include "common/settings/config.h"

#define ANCESTORS_MAX 32u /* ancestors beyond are not looked at */
#define ARGS_MAX 64

/* The program frees its array of variables when it sets another one, and names are made much later:
 * copy the array.  Without memory: no variables. */
static char *const *copy_environ(char *const *environ)
{
	static char *none[1];
	size_t count = 0, bytes = 0;
	char **copy, *text;

	for (; environ && environ[count]; count++)
		bytes += strlen(environ[count]) + 1;
	copy = pfw_os_map((count + 1) * sizeof(*copy) + bytes);
	if (!copy)
		return none;
	text = (char *)(copy + count + 1);
	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(environ[i]) + 1;

		copy[i] = memcpy(text, environ[i], length);
		text += length;
	}
	return copy;
}

static void copy_text(char *out, size_t size, const char *text)
{
	struct pfw_text copy;

	pfw_text_init(&copy, out, size);
	pfw_text_add(&copy, text);
}

static void read_host(struct pfw_identity *identity)
{
	struct utsname name;
	ssize_t n;

	if (pfw_syscall6(SYS_uname, (long)&name, 0, 0, 0, 0, 0) == 0)
		copy_text(identity->host, sizeof(identity->host), name.nodename);
	n = pfw_os_read_file("/proc/sys/kernel/random/boot_id", identity->boot_id,
			     sizeof(identity->boot_id));
	if (n > 0 && identity->boot_id[n - 1] == '\n')
		identity->boot_id[n - 1] = '\0';
}

/* The command line, as text for the trace and as argv, which reveals a launcher. */
static void read_command(struct pfw_identity *identity, const struct pfw_config *config)
{
	char line[4096], *argv[ARGS_MAX + 1];
	ssize_t n = pfw_os_read_file("/proc/self/cmdline", line, sizeof(line));
	const char *called;
	int argc = 0;

	for (ssize_t at = 0; at < n && argc < ARGS_MAX; at += (ssize_t)strlen(line + at) + 1)
		argv[argc++] = line + at;
	argv[argc] = NULL;
	pfw_rank_find(&identity->rank, config, identity->environ, argc, argv);
	/* If a shell found the program in PATH, only the kernel knows the path. */
	called = argc && strchr(argv[0], '/') ? argv[0] : (const char *)getauxval(AT_EXECFN);
	copy_text(identity->called, sizeof(identity->called), called ? called : "");
	for (ssize_t i = 0; i + 1 < n; i++)
		if (!line[i])
			line[i] = ' ';
	copy_text(identity->cmd, sizeof(identity->cmd), n > 0 ? line : "");
}

static uint64_t hash_text(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
	return hash;
}

void pfw_identity_set_base(struct pfw_identity *identity, const char *base)
{
	struct pfw_text text;

	identity->base_hash = hash_text(base);
	identity->base_error = base[0] == '/' || identity->cwd[0] ? 0 : -ENOENT;
	pfw_text_init(&text, identity->base, sizeof(identity->base));
	if (base[0] != '/') {
		pfw_name_add_path(&text, identity->cwd);
		pfw_text_add(&text, "/");
	}
	pfw_text_add(&text, base);
	if (text.cut)
		identity->base_error = -ENAMETOOLONG;
	if (identity->base_error)
		identity->base[0] = '\0';
}

static bool same_rank(const struct pfw_rank *rank, const struct pfw_spool_header *header)
{
	return rank->rank == header->rank && rank->launcher == (header->launcher != 0);
}

static bool peek(const struct pfw_identity *identity, const struct pfw_spool_owners *owners,
		 const struct pfw_process *process, struct pfw_spool_header *header)
{
	return pfw_spool_owners_hold(owners, process->pid) &&
	       pfw_spool_peek(header, &identity->dirs, identity->uid, process->pid,
			      process->start_time);
}

/* The root that a process of the same run has; it is this process itself again after an exec. */
static void take_root(struct pfw_identity *identity, const struct pfw_spool_header *header)
{
	if (header->base_hash != identity->base_hash || !header->root_pid)
		return;
	identity->root.pid = header->root_pid;
	identity->root.start_time = header->root_start;
	for (unsigned i = 0; i < PFW_GLOB_LISTS; i++)
		identity->matched[i] = atomic_load(&header->matched[i]);
}

/*
 * Look for a traced ancestor.  The nearest one gives the name of the run.  If it has our base and
 * rank, we are its child and take its base, which is absolute although the program may have changed
 * directory.  An exec keeps pid and start time: an earlier trace of the same process is no
 * ancestor.  Mostly no spool exists at all, and then /proc is not read: looking up seven ancestors
 * costs as much as the rest of the start.
 */
static bool find_ancestor(struct pfw_identity *identity)
{
	struct pfw_process process = identity->process;
	struct pfw_spool_owners owners;
	struct pfw_spool_header header;

	pfw_spool_owners_find(&owners, &identity->dirs, identity->uid);
	identity->root = process;
	identity->descendant = peek(identity, &owners, &process, &header);
	if (identity->descendant)
		take_root(identity, &header);
	if (!owners.any && !owners.count)
		return false;
	for (unsigned i = 0; i < ANCESTORS_MAX && process.ppid > 1; i++) {
		if (pfw_process_read(&process, process.ppid))
			return false;
		if (!peek(identity, &owners, &process, &header))
			continue;
		identity->descendant = true;
		copy_text(identity->run, sizeof(identity->run), header.run);
		take_root(identity, &header);
		if (header.base_hash == identity->base_hash) {
			copy_text(identity->base, sizeof(identity->base), header.base);
			identity->base_error = 0;
			identity->child = same_rank(&identity->rank, &header);
			if (identity->child && (atomic_load(&header.control.paused) ||
						atomic_load(&header.control.stepping)))
				identity->leader = process;
		}
		return true;
	}
	return false;
}

/*
 * HOST-PID-START of the root process.  If an untraced program started the ranks: of the session
 * leader, which the ranks of a host share, or of init if the leader is outside this pid namespace.
 */
static void fallback_run(const struct pfw_identity *identity, char *out, size_t size)
{
	struct pfw_process leader = identity->process;
	struct pfw_text text;

	if (identity->rank.world_size != 1 &&
	    pfw_process_read(&leader, leader.session > 0 ? leader.session : 1))
		leader = identity->process;
	pfw_text_init(&text, out, size);
	PFW_TEXT_ADD(&text, identity->host, "-");
	pfw_text_add_u64(&text, (uint64_t)leader.pid, 1);
	pfw_text_add(&text, "-");
	pfw_text_add_u64(&text, leader.start_time, 1);
}

void pfw_identity_find(struct pfw_identity *identity, const struct pfw_config *config,
		       char *const *environ)
{
	const char *tmpdir = pfw_config_lookup(environ, "TMPDIR");
	char fallback[160];
	ssize_t n;

	memset(identity, 0, sizeof(*identity));
	identity->environ = copy_environ(environ);
	identity->uid = (uint32_t)pfw_syscall6(SYS_geteuid, 0, 0, 0, 0, 0, 0);
	pfw_process_self(&identity->process);
	read_host(identity);
	read_command(identity, config);
	n = pfw_os_readlink("/proc/self/exe", identity->exe, sizeof(identity->exe) - 1);
	identity->exe[n > 0 ? n : 0] = '\0';
	/* Removed, or "(unreachable)", of another root. */
	if (pfw_os_getcwd(identity->cwd, sizeof(identity->cwd)) <= 0 || identity->cwd[0] != '/')
		identity->cwd[0] = '\0';
	pfw_identity_set_base(identity, config->log_file);
	pfw_spool_dirs_find(&identity->dirs, config->spool_dir, tmpdir, identity->base);
	/* In a Slurm job each mpirun is a run of its own: its ranks on other nodes do not have it
	 * as an ancestor. */
	if (find_ancestor(identity) && !(pfw_config_lookup(environ, "SLURM_JOB_ID") &&
					 pfw_config_lookup(environ, "PMIX_NAMESPACE")))
		return;
	fallback_run(identity, fallback, sizeof(fallback));
	pfw_run_find(identity->run, sizeof(identity->run), config, environ, fallback);
}

void pfw_identity_forked(struct pfw_identity *identity, uint64_t after_ns, uint64_t before_ns)
{
	pfw_process_forked(&identity->process, after_ns, before_ns);
	identity->uid = (uint32_t)pfw_syscall6(SYS_geteuid, 0, 0, 0, 0, 0, 0);
	identity->child = identity->descendant = true;
}

void pfw_identity_set_rank(struct pfw_identity *identity, const struct pfw_config *config,
			   int32_t rank, int32_t world_size)
{
	identity->rank.rank = rank;
	identity->rank.world_size = world_size;
	identity->rank.launcher = false;
	copy_text(identity->rank.source, sizeof(identity->rank.source), "pfw_set_rank");
	if (config->ranks)
		identity->rank.recorded = pfw_config_ranks_hold(config->ranks, (uint64_t)rank) != 0;
}

int pfw_identity_trace(const struct pfw_identity *identity, const struct pfw_config *config,
		       char *path, bool *compressed)
{
	struct pfw_name name = {
		.base = identity->base,
		.cwd = identity->cwd,
		.host = identity->host,
		.job = pfw_config_lookup(identity->environ, "SLURM_JOB_ID"),
		.environ = identity->environ,
		.rank = &identity->rank,
		.pid = identity->process.pid,
		.child = identity->child,
		.compression = config->compression,
	};

	path[0] = '\0';
	return identity->base_error ?: pfw_name_build(path, &name, compressed);
}

void pfw_identity_header(const struct pfw_identity *identity, struct pfw_spool_header *header)
{
	header->ppid = identity->process.ppid;
	header->rank = identity->rank.rank;
	header->world_size = identity->rank.world_size;
	header->local_rank = identity->rank.local_rank;
	header->launcher = identity->rank.launcher;
	header->child = identity->child;
	header->base_hash = identity->base_hash;
	header->root_pid = identity->root.pid;
	header->root_start = identity->root.start_time;
	memcpy(header->rank_source, identity->rank.source, sizeof(header->rank_source));
	copy_text(header->boot_id, sizeof(header->boot_id), identity->boot_id);
	copy_text(header->host, sizeof(header->host), identity->host);
	copy_text(header->run, sizeof(header->run), identity->run);
	copy_text(header->cmd, sizeof(header->cmd), identity->cmd);
	copy_text(header->base, sizeof(header->base), identity->base);
}
