"""An operator of your own in Python: the distance on the earth between places, and a model that uses it.

    python distance.py

`einkorn.op` takes the definition as the docstring of a function. It makes a function of arrays, which is compiled for
the types and sizes that it meets, and it may be handed to `einkorn.compile`, where a model uses the operator by its
name. Needs the packages einkorn and numpy.
"""
import einkorn
import numpy as np

PLACES = {"Berlin": (52.52, 13.40), "Paris": (48.86, 2.35), "Madrid": (40.42, -3.70), "Rome": (41.90, 12.50),
          "Cairo": (30.04, 31.24), "Nairobi": (-1.29, 36.82), "Tokyo": (35.68, 139.69), "Sydney": (-33.87, 151.21),
          "New York": (40.71, -74.01), "Lima": (-12.05, -77.04)}


@einkorn.op
def haversine():
    '''
    """Kilometres along the earth's surface between all places of A and of B: latitude and longitude in degrees."""
    op Haversine<T: float>(A: T[n, 2], B: T[m, 2]; radius: float = 6371.0) -> D: T[n, m] {
      let degree = 0.017453292519943295
      U[i, j] = sin((B[j, 0] - A[i, 0])*T(degree/2))
      V[i, j] = sin((B[j, 1] - A[i, 1])*T(degree/2))
      H[i, j] = U[i, j]*U[i, j] + cos(A[i, 0]*T(degree))*cos(B[j, 0]*T(degree))*V[i, j]*V[i, j]
      D[i, j] = T(2*radius)*asin(sqrt(min(H[i, j], T(1))))
    }
    '''


# A model that uses it: an ONNX file would have a node Haversine, here it is written as text. Both operators become one
# kernel, which keeps one row of distances at a time: `einkorn.compile(NEAREST, ops=haversine).show("expr")` shows it.
NEAREST = b'''
graph "nearest" ir 10 opset 23 {
  input here: f32[n, 2]
  input places: f32[m, 2]
  distance = Haversine(here, places)
  nearest = ArgMin(distance) {axis = 1, keepdims = 0}
  output nearest
}
'''


def main():
    names = list(PLACES)
    places = np.array(list(PLACES.values()), np.float32)
    kilometres = haversine(places, places)
    print("from Berlin: " + ", ".join("%s %.0f km" % (n, d) for n, d in zip(names[1:], kilometres[0, 1:])))
    print("the same on a sphere of radius 1: %.4f to Paris" % haversine(places[:1], places[1:2], radius=1)[0, 0])
    model = einkorn.compile(NEAREST, ops=haversine)
    visitors = np.array([[51.5, -0.1], [-4.0, 39.7], [37.6, 127.0], [-33.4, -70.7]], np.float32)
    for who, nearest in zip(("London", "Mombasa", "Seoul", "Santiago"), model(visitors, places)):
        print("nearest to %s: %s" % (who, names[nearest]))


if __name__ == "__main__":
    main()
