/* needed.c - keeps libpfw.so.1 needed where -lpfw stands before the sources.
 *
 * The linker's libpfw.so is a script that names this object and the library.  Compilers of Debian and
 * Ubuntu pass --as-needed: a library is dropped if nothing before it uses it.  This object does.
 */
extern const char *pfw_version(void);

__attribute__((used)) static const char *(*const needed)(void) = pfw_version;
