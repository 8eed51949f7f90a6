/* switch.c - classes whose instances do nothing where their first argument, `enabled`, is False.
 *
 * To make such an instance, and to enter and leave it, is to cost as good as nothing: so all are one, `_off`
 * of the class, which its metaclass here hands back, and what its class calls binds to no object, which is
 * half of what entering and leaving costs.
 */
#include "core.h"

static PyObject *off_word, *enabled_word;
static ternaryfunc make; /* type.__call__ */

/* None, whatever it is given. */
static PyObject *nothing(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
	(void)module;
	(void)args;
	(void)count;
	(void)names;
	Py_INCREF(Py_None);
	return Py_None;
}

static PyObject *itself(PyObject *object, PyObject *none)
{
	(void)none;
	Py_INCREF(object);
	return object;
}

/* A function that returns that object, whomever it is called on. */
static PyObject *giving(PyObject *module, PyObject *object)
{
	static PyMethodDef method = { "__enter__", itself, METH_NOARGS, NULL };

	(void)module;
	return PyCFunction_NewEx(&method, object, NULL);
}

/* The one of the class itself: an instance of a class made of it right away.  NULL: there is none. */
static PyObject *off_of(PyObject *class)
{
	PyObject *off = PyObject_GetAttr(class, off_word);

	if (off && (PyObject *)PyType_GetSlot(Py_TYPE(off), Py_tp_base) == class)
		return off;
	Py_XDECREF(off);
	PyErr_Clear();
	return NULL;
}

static PyObject *call(PyObject *class, PyObject *args, PyObject *words)
{
	Py_ssize_t count = PyTuple_Size(args);
	PyObject *enabled = NULL, *made, *off;

	if (count)
		enabled = PyTuple_GetItem(args, 0);
	else if (words)
		enabled = PyDict_GetItem(words, enabled_word);
	if (enabled != Py_False)
		return make(class, args, words);
	off = off_of(class);
	if (off && count + (words ? PyDict_Size(words) : 0) == 1)
		return off;
	/* With more arguments it may be called wrongly, which is to be said. */
	made = make(class, args, words);
	if (!made || !off) {
		Py_XDECREF(off);
		return made;
	}
	Py_DECREF(made);
	return off;
}

static PyMethodDef methods[] = {
	{ "nothing", (PyCFunction)(void (*)(void))(core_keywords_fn *)nothing,
	  METH_FASTCALL | METH_KEYWORDS, NULL },
	{ "giving", giving, METH_O, NULL },
	{ 0 },
};

static PyType_Slot slots[] = { { Py_tp_call, (void *)(uintptr_t)call }, { 0 } };

static PyType_Spec spec = {
	.name = "pfw._core.Switch",
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = slots,
};

int core_add_switch(PyObject *module)
{
	PyObject *bases = PyTuple_Pack(1, (PyObject *)&PyType_Type);
	PyObject *type = bases ? PyType_FromSpecWithBases(&spec, bases) : NULL;

	Py_XDECREF(bases);
	off_word = PyUnicode_InternFromString("_off");
	enabled_word = PyUnicode_InternFromString("enabled");
	make = (ternaryfunc)(uintptr_t)PyType_GetSlot(&PyType_Type, Py_tp_call);
	if (!type || !off_word || !enabled_word)
		return -1;
	if (PyModule_AddObject(module, "Switch", type) < 0) {
		Py_DECREF(type);
		return -1;
	}
	return PyModule_AddFunctions(module, methods);
}
