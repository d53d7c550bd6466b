import numpy as np

from kaio import In, Out


def kernel(x: In[float], y: Out[np.float64], z: In[str], w: In['(2,']):
    pass
