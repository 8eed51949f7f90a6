"""pfw doctor runs this.  Prints a verdict, a name and a text for each, separated by tabs.  Importing torch takes
seconds, so it is only looked up."""
import importlib
import importlib.util
import sys

sys.path = [place for place in sys.path if place]  # not from the working directory


def tell(verdict, name, text):
    print(verdict, name, ' '.join(text.split()), sep='\t')


def look(name, there, cure, load=True):
    try:
        if importlib.util.find_spec(name) is None:
            return tell(1, name, 'not installed: ' + cure)
        if load:
            importlib.import_module(name)
        tell(0, name, there)
    except BaseException as error:
        tell(2, name, f'does not import: {type(error).__name__}: {error}; '
                      'pip install --force-reinstall ' + cure.split()[2])


at = ' in ' + sys.executable
look('pfw', 'backends simple and pfw' + at, 'pip install pfwtrace')
look('torch', 'backend pytorch' + at, 'pip install torch (backend pytorch)', False)
look('viztracer', 'backend viztracer' + at, 'pip install viztracer (backend viztracer)')
