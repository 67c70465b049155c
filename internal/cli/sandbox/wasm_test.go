package sandbox

import "testing"

func TestLacks(t *testing.T) {
	for source, refused := range map[string]bool{
		"import numpy": true, "import os, numpy as np\n": true, "x = 1\nfrom pandas.io import json\n": true, "import sklearn.svm; x()": true, "from  PIL import Image": true,
		"import json, sys\n": false, "try:\n    import numpy\nexcept ImportError: pass\n": false, "print('import numpy')": false, "import numpyish": false, "from . import x": false, "# import numpy": false, "import": false, "from numpy": false,
	} {
		if err := lacks("it", source); (err != nil) != refused {
			t.Errorf("%q: %v", source, err)
		}
	}
}
