from kaio import In, f32


class Model:
    def kernel(self, x: In[f32]):
        pass


kernel = Model.kernel
